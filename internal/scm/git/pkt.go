package git

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/scm"
)

// Faults of the wire form.
var (
	errWire     = errors.New("malformed git request")
	errWireSize = errors.New("git request too large")
)

// section reads pkt-lines up to and with the next flush packet, or to the end of input
// at a line's border. raw is everything that was read, so it can be passed on unchanged.
//
// Trust: r is whatever a client sent; at most max bytes of it are held.
func section(r *bufio.Reader, max int) (lines []string, raw []byte, err error) {
	var head [4]byte
	for {
		n, err := io.ReadFull(r, head[:])
		if n == 0 && err == io.EOF {
			return lines, raw, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: cut in a packet's length", wireFault(err))
		}
		size, err := strconv.ParseUint(string(head[:]), 16, 16)
		if err != nil || size > 0 && size < 4 || strings.ContainsAny(string(head[:]), "+-_") {
			return nil, nil, fmt.Errorf("%w: a packet's length is %.4q", errWire, head)
		}
		raw = append(raw, head[:]...)
		if size == 0 {
			return lines, raw, nil
		}
		body := int(size) - 4
		if len(raw)+body > max {
			return nil, nil, errWireSize
		}
		at := len(raw)
		raw = append(raw, make([]byte, body)...)
		if _, err := io.ReadFull(r, raw[at:]); err != nil {
			return nil, nil, fmt.Errorf("%w: cut in a packet", wireFault(err))
		}
		lines = append(lines, strings.TrimSuffix(string(raw[at:]), "\n"))
	}
}

// wireFault tells a cut request from a broken connection or a limit.
func wireFault(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errWire
	}
	return err
}

// packet writes one pkt-line.
func packet(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// pushCommand is one ref that a client wants to set.
type pushCommand struct{ old, new, ref string }

// push is the command part of a push.
type push struct {
	commands     []pushCommand
	capabilities []string
	refusal      string // why the server won't do it; "" if it may
}

// parsePush reads the commands and judges them: the one thing a client may do is to make
// refs/fairlead/captures/<commit> lead to exactly <commit>.
//
// Trust: lines are whatever a client sent.
func parsePush(lines []string) (push, error) {
	var p push
	refuse := func(text string) {
		if p.refusal == "" {
			p.refusal = text
		}
	}
	for i, line := range lines {
		if commit, ok := strings.CutPrefix(line, "shallow "); ok && scm.ValidCommit(commit) {
			refuse("this clone is shallow, so its history can't be sent; run git fetch --unshallow first")
			continue
		}
		if line == "push-cert" || strings.HasPrefix(line, "push-cert\x00") {
			return push{}, fmt.Errorf("%w: signed pushes are not offered", errWire)
		}
		line, capabilities, with := strings.Cut(line, "\x00")
		if with && len(p.commands) == 0 {
			p.capabilities = strings.Fields(capabilities)
		}
		field := strings.SplitN(line, " ", 3)
		if len(field) != 3 || !scm.ValidCommit(field[0]) || !scm.ValidCommit(field[1]) ||
			len(field[0]) != len(field[1]) || !scm.ValidRefName(field[2]) {
			return push{}, fmt.Errorf("%w: push command %d", errWire, i+1)
		}
		c := pushCommand{old: field[0], new: field[1], ref: field[2]}
		p.commands = append(p.commands, c)
		commit, capture := strings.CutPrefix(c.ref, CapturePrefix)
		switch {
		case len(c.new) != 40:
			refuse("repositories with SHA-256 object ids are not supported")
		case !capture || !scm.ValidCommit(commit):
			refuse("only " + CapturePrefix + "<commit> takes pushes; branches and tags are not yours to move here")
		case scm.ZeroCommit(c.new):
			refuse("nothing can be deleted here")
		case c.new != commit:
			refuse("the ref must be named after the commit it leads to")
		}
	}
	if len(p.commands) > commandsMax {
		refuse(fmt.Sprintf("at most %d refs can be pushed at once", commandsMax))
	}
	return p, nil
}

// report is the answer to a push that was refused as a whole, in the form that the
// client asked for; ok is false when it asked for none.
func (p push) report() (text string, ok bool) {
	if !slices.Contains(p.capabilities, "report-status") && !slices.Contains(p.capabilities, "report-status-v2") {
		return "", false
	}
	var b strings.Builder
	b.WriteString(packet("unpack refused by the server\n"))
	for _, c := range p.commands {
		b.WriteString(packet("ng " + c.ref + " " + p.refusal + "\n"))
	}
	b.WriteString("0000")
	if !slices.Contains(p.capabilities, "side-band-64k") {
		return b.String(), true
	}
	var banded strings.Builder
	rest := b.String()
	for len(rest) > 0 {
		n := min(len(rest), 60_000)
		banded.WriteString(packet("\x01" + rest[:n]))
		rest = rest[n:]
	}
	banded.WriteString("0000")
	return banded.String(), true
}

// encode writes the commands back as pkt-lines. present are the refs that exist already;
// they can only hold their own commit, so the old value is set to it: a repeated push is
// then a push of nothing instead of a conflict.
func (p push) encode(present map[string]bool) string {
	var b strings.Builder
	for i, c := range p.commands {
		old := strings.Repeat("0", len(c.new))
		if present[c.ref] {
			old = c.new
		}
		line := old + " " + c.new + " " + c.ref
		if i == 0 {
			line += "\x00" + strings.Join(p.capabilities, " ")
		}
		b.WriteString(packet(line))
	}
	b.WriteString("0000")
	return b.String()
}

// checkWants judges the first part of a fetch request: it may want exactly commit.
//
// Trust: lines are whatever a client sent.
func checkWants(lines []string, commits ...string) (refusal string, err error) {
	for i, line := range lines {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "want":
			id, _, _ := strings.Cut(rest, " ")
			id, _, _ = strings.Cut(id, "\x00")
			if !scm.ValidCommit(id) {
				return "", fmt.Errorf("%w: fetch line %d", errWire, i+1)
			}
			if !slices.Contains(commits, id) {
				// Git's own words for a commit that it does not have: a caller can't tell
				// one that exists from one that does not.
				return "upload-pack: not our ref " + id, nil
			}
		case "shallow":
			if !scm.ValidCommit(rest) {
				return "", fmt.Errorf("%w: fetch line %d", errWire, i+1)
			}
		case "deepen":
			if n, err := strconv.Atoi(rest); err != nil || n < 0 {
				return "", fmt.Errorf("%w: fetch line %d", errWire, i+1)
			}
		case "deepen-since", "filter", "deepen-not":
			// deepen-not would answer whether a hidden branch exists; the others are not
			// needed by a checkout of one commit.
			return "upload-pack: " + verb + " is not offered", nil
		default:
			return "", fmt.Errorf("%w: fetch line %d", errWire, i+1)
		}
	}
	return "", nil
}
