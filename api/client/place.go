package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// discoveryName is the file of a data folder that says how to reach its server.
const discoveryName = "client.json"

// ErrNoServer says that nothing tells where the server is.
var ErrNoServer = errors.New("no server is known here: start one with fairlead up, " +
	"or set FAIRLEAD_SERVER and FAIRLEAD_TOKEN")

// Place is where a server is, and what opens it.
type Place struct {
	Server string
	Token  domain.Secret
	From   string // what told so, for messages: a variable or a file
}

// discovery is the form of client.json.
type discovery struct {
	URL string `json:"url"`
	// TokenFile is relative to the data folder when it lies in it, so the folder can move.
	TokenFile string `json:"token_file"`
}

// Locate finds the server: FAIRLEAD_SERVER with FAIRLEAD_TOKEN, else the data folder that
// FAIRLEAD_DATA names, else the user's default one.
func Locate(getenv func(string) string) (Place, error) {
	if server := getenv("FAIRLEAD_SERVER"); server != "" {
		token := getenv("FAIRLEAD_TOKEN")
		if token == "" {
			return Place{}, errors.New("FAIRLEAD_SERVER is set and FAIRLEAD_TOKEN is not: set both, or neither")
		}
		return Place{Server: server, Token: domain.NewSecret(token), From: "FAIRLEAD_SERVER"}, nil
	}
	folder := getenv("FAIRLEAD_DATA")
	if folder == "" {
		var err error
		if folder, err = DefaultDataFolder(getenv); err != nil {
			return Place{}, err
		}
	}
	return LocateIn(folder)
}

// LocateIn finds the server that keeps its data in folder.
func LocateIn(folder string) (Place, error) {
	path := filepath.Join(folder, discoveryName)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Place{}, fmt.Errorf("locate server in %s: %w", folder, ErrNoServer)
	}
	if err != nil {
		return Place{}, fmt.Errorf("locate server: %w", err)
	}
	var found discovery
	if err := json.Unmarshal(content, &found); err != nil {
		return Place{}, fmt.Errorf("locate server: read %s: %w", path, err)
	}
	tokenFile := found.TokenFile
	if !filepath.IsAbs(tokenFile) {
		tokenFile = filepath.Join(folder, tokenFile)
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return Place{}, fmt.Errorf("locate server: read token: %w", err)
	}
	return Place{Server: found.URL, Token: domain.NewSecret(strings.TrimSpace(string(token))), From: path}, nil
}

// WriteDiscovery tells clients on this machine where the server of that data folder is.
// The file is replaced whole and readable by its owner only.
func WriteDiscovery(folder, server, tokenFile string) error {
	if inside, err := filepath.Rel(folder, tokenFile); err == nil && filepath.IsLocal(inside) {
		tokenFile = inside
	}
	content, err := json.MarshalIndent(discovery{URL: server, TokenFile: tokenFile}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode discovery file: %w", err)
	}
	file, err := os.CreateTemp(folder, ".client-*") // made 0600
	if err != nil {
		return fmt.Errorf("write discovery file: %w", err)
	}
	_, err = file.Write(append(content, '\n'))
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(folder, discoveryName))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write discovery file: %w", err), os.Remove(file.Name()))
	}
	return nil
}

// DefaultDataFolder is where fairlead up keeps its data when nothing says otherwise.
func DefaultDataFolder(getenv func(string) string) (string, error) {
	if folder := getenv("XDG_DATA_HOME"); filepath.IsAbs(folder) {
		return filepath.Join(folder, "fairlead"), nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("find data folder: neither HOME nor FAIRLEAD_DATA is set")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "fairlead"), nil
	}
	return filepath.Join(home, ".local", "share", "fairlead"), nil
}
