package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/logs/ansi"
)

//go:embed static
var staticFiles embed.FS

// asset is one embedded file as browsers get it.
type asset struct {
	name   string // "log.1f2e3d4c5b6a.js"
	kind   string // media type
	plain  []byte
	zipped []byte
}

// assets are all embedded files under names that change with their content, so that
// they may be kept for ever and are never stale.
type assets struct {
	byName  map[string]*asset // as requested
	byPlain map[string]*asset // as written in the templates
}

var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// imported finds the file that a module imports: import { x } from "./live.js".
var imported = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(from|import)(\s*\(?\s*)"\./([a-z-]+\.js)"`)
})

// buildAssets reads every file, follows the imports between modules, and names each by
// its content after the imports were replaced: a changed module changes its importers.
func buildAssets(files fs.FS) (*assets, error) {
	names, err := fs.Glob(files, "static/*")
	if err != nil {
		return nil, fmt.Errorf("list assets: %w", err)
	}
	a := &assets{byName: map[string]*asset{}, byPlain: map[string]*asset{}}
	for _, name := range names {
		if _, err := a.add(files, path.Base(name), nil); err != nil {
			return nil, err
		}
	}
	// The colours of terminal output come from the renderer that writes their classes.
	a.put("terminal.css", []byte(ansi.Stylesheet()))
	return a, nil
}

func (a *assets) add(files fs.FS, name string, open []string) (*asset, error) {
	if done := a.byPlain[name]; done != nil {
		return done, nil
	}
	if slices.Contains(open, name) {
		return nil, fmt.Errorf("build asset %s: modules import each other in a circle: %v", name, open)
	}
	body, err := fs.ReadFile(files, "static/"+name)
	if err != nil {
		return nil, fmt.Errorf("read asset %s: %w", name, err)
	}
	ext := path.Ext(name)
	if _, known := mediaTypes[ext]; !known {
		return nil, fmt.Errorf("build asset %s: no media type for %q", name, ext)
	}
	if ext == ".js" {
		body = imported().ReplaceAllFunc(body, func(match []byte) []byte {
			part := imported().FindSubmatch(match)
			other, failed := a.add(files, string(part[3]), append(open, name))
			if failed != nil {
				err = failed
				return match
			}
			return fmt.Appendf(nil, `%s%s"./%s"`, part[1], part[2], other.name)
		})
		if err != nil {
			return nil, err
		}
	}
	return a.put(name, body), nil
}

// put names a file by its content and keeps it, compressed once.
func (a *assets) put(name string, body []byte) *asset {
	ext := path.Ext(name)
	sum := sha256.Sum256(body)
	built := &asset{kind: mediaTypes[ext], plain: body,
		name: strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext}
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // a constant level that exists
	_, _ = zip.Write(body)                                    // a buffer takes everything
	_ = zip.Close()
	built.zipped = out.Bytes()
	a.byPlain[name], a.byName[built.name] = built, built
	return built
}

// url is the address of an asset. A template that names a file that is not there is a
// defect that every test of a page finds.
func (a *assets) url(name string) string {
	built := a.byPlain[name]
	if built == nil {
		panic("no asset " + name)
	}
	return "/static/" + built.name
}

// modulesFor are the addresses of the script modules that a page will import, so that
// browsers fetch them at once and not one after the other.
func (a *assets) modulesFor(log bool) []string {
	out := []string{a.url("clock.js"), a.url("keys.js"), a.url("live.js"), a.url("morph.js")}
	if log {
		out = append(out, a.url("lines.js"), a.url("scroller.js"))
	}
	return out
}

func (p *Pages) serveAsset(w http.ResponseWriter, r *http.Request) {
	found := p.assets.byName[r.PathValue("file")]
	if found == nil {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", found.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Add("Vary", "Accept-Encoding")
	body := found.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = found.zipped
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the reader may be gone
}
