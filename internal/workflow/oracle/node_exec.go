package oracle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Asked is one expression for the oracle. Contexts is a JSON text.
type Asked struct {
	ID       int    `json:"id"`
	Expr     string `json:"expr"`
	Contexts string `json:"contexts"`
}

// Said is what the oracle answered: as it is, and with all rules in force.
type Said struct {
	ID    int      `json:"id"`
	Raw   Reply    `json:"raw"`
	Ruled Reply    `json:"ruled"`
	Rules []string `json:"rules"`
}

// Reply is one answer of the oracle.
type Reply struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"`
	Error *struct {
		Phase   string `json:"phase"`
		Message string `json:"message"`
	} `json:"error"`
}

// Modules is the folder that scripts/oracle.sh installs the packages into, named by the lock
// file: another version is another folder. root is that of the repository.
func Modules(root string) (string, error) {
	lock, err := os.ReadFile(filepath.Join(root, "test/oracle/package-lock.json"))
	if err != nil {
		return "", err
	}
	cache := os.Getenv("FAIRLEAD_ORACLE_CACHE")
	if cache == "" {
		base := os.Getenv("XDG_CACHE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", err
			}
			base = filepath.Join(home, ".cache")
		}
		cache = filepath.Join(base, "fairlead/oracle")
	}
	sum := sha256.Sum256(lock)
	folder := filepath.Join(cache, hex.EncodeToString(sum[:])[:16], "node_modules")
	if _, err := os.Stat(filepath.Join(folder, "@actions/expressions/dist/index.js")); err != nil {
		return "", fmt.Errorf("GitHub's packages are not installed: run scripts/oracle.sh (make test does): %w", err)
	}
	return folder, nil
}

// Ask puts all questions to one process and returns the answers in their order.
func Ask(root string, questions []Asked) ([]Said, error) {
	modules, err := Modules(root)
	if err != nil {
		return nil, err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("find node, which scripts/setup.sh installs: %w", err)
	}
	script := filepath.Join(root, "test/oracle/answer.mjs")
	if _, err := os.ReadFile(script); err != nil { // a file that was read makes a cached test run again
		return nil, err
	}
	var in, out, problems bytes.Buffer
	lines := json.NewEncoder(&in)
	for i, q := range questions {
		q.ID = i
		if err := lines.Encode(q); err != nil {
			return nil, err
		}
	}
	command := exec.Command(node, script, modules)
	command.Stdin, command.Stdout, command.Stderr = &in, &out, &problems
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("run the oracle: %w\n%s", err, problems.String())
	}
	return read(&out, len(questions))
}

func read(out *bytes.Buffer, want int) ([]Said, error) {
	const lineMax = 64 << 20
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, lineMax)
	var all []Said
	for scan.Scan() {
		var s Said
		if err := json.Unmarshal(scan.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("read the oracle's answer %d: %w", len(all), err)
		}
		if s.ID != len(all) {
			return nil, fmt.Errorf("the oracle answered %d in place of %d", s.ID, len(all))
		}
		all = append(all, s)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if len(all) != want {
		return nil, errors.New("the oracle ended early")
	}
	return all, nil
}
