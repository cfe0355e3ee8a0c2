package pool

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/codec/codectest"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a pool that is lived twice: as decided, and as read back from its stored form.
type world struct {
	t            *testing.T
	live, replay *State
	now          time.Time
}

func newWorld(t *testing.T) *world { return &world{t, New(), New(), start} }

// do decides and applies; it returns the names of the events, or the code of the rejection.
func (w *world) do(c Command) (string, Decision) {
	w.t.Helper()
	before := EncodeState(w.live)
	d, rejection := Decide(w.live, c, w.now)
	if !bytes.Equal(before, EncodeState(w.live)) {
		w.t.Fatalf("%s: Decide changed the state", c.Name())
	}
	if rejection != nil {
		return string(rejection.Code), d
	}
	data, err := EncodeEvents(d.Events, codec.Format)
	if err != nil {
		w.t.Fatal(err)
	}
	again, err := DecodeEvents(data)
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i, e := range d.Events {
		Evolve(w.live, e)
		Evolve(w.replay, again[i])
		names = append(names, e.Name())
		if err := Check(w.live); err != nil {
			w.t.Fatalf("%s: %v", c.Name(), err)
		}
	}
	state := EncodeState(w.live)
	if restored, err := DecodeState(state); err != nil || !bytes.Equal(EncodeState(restored), state) {
		w.t.Fatalf("%s: a checkpoint comes back as another state: %v", c.Name(), err)
	}
	if !bytes.Equal(state, EncodeState(w.replay)) {
		w.t.Fatalf("%s: replay differs\n%+v\n%+v", c.Name(), w.live, w.replay)
	}
	if len(names) == 0 {
		return "nothing new", d
	}
	return strings.Join(names, " "), d
}

func (w *world) want(c Command, want string) Decision {
	w.t.Helper()
	got, d := w.do(c)
	if got != want {
		w.t.Errorf("%s: got %s, want %s", c.Name(), got, want)
	}
	return d
}

func digest(text string) domain.Digest { return domain.DigestOf([]byte(text)) }

func create() CreatePool {
	return CreatePool{Tenant: domain.DefaultTenant, Pool: "default", Config: DefaultConfig()}
}

func register(token, name string) RegisterRunner {
	return RegisterRunner{
		Token: digest(token), Runner: domain.RunnerID("rnr_" + name), Session: domain.SessionID("ses_" + name),
		Resume: digest("resume " + name), RunnerName: name, Labels: []string{"gpu"}, Capacity: 2, Isolation: "oci",
		OS: "linux", Arch: "amd64", Version: "1",
	}
}

// Promises: [ACC-10].
func TestARunnerJoinsOnce(t *testing.T) {
	w := newWorld(t)
	w.want(register("t1", "m1"), "not_found")
	w.want(create(), "PoolCreated")
	w.want(create(), "nothing new")
	w.want(CreatePool{Tenant: "tnt_other", Pool: "default", Config: DefaultConfig()}, "already_exists")

	w.want(register("t1", "m1"), "registration_token_invalid")
	issue := IssueRegistrationToken{Token: digest("t1"), Expires: start.Add(time.Hour)}
	w.want(issue, "RegistrationTokenIssued")
	w.want(issue, "nothing new")
	w.want(register("t1", "m1"), "RunnerRegistered")
	d := w.want(register("t1", "m1"), "nothing new")
	if reply := d.Reply.(RegisterReply); !reply.Repeat || reply.Runner != "rnr_m1" || reply.Session != "ses_m1" {
		t.Errorf("a repeat is answered %+v", reply)
	}
	w.want(register("t1", "m2"), "registration_token_invalid") // used
	w.want(issue, "already_exists")

	w.want(IssueRegistrationToken{Token: digest("t2"), Expires: start.Add(time.Hour)}, "RegistrationTokenIssued")
	same := register("t2", "m1")
	same.Resume = digest("another")
	w.want(same, "already_exists")
	w.want(RemoveRunner{Runner: "rnr_m1", Reason: "gone"}, "RunnerRemoved")
	w.want(RemoveRunner{Runner: "rnr_m1"}, "not_found")
	w.want(same, "RunnerRegistered") // the name is free again
	w.want(register("t1", "m1"), "registration_token_invalid")
}

// Promises: [ACC-10].
func TestTokensExpire(t *testing.T) {
	w := newWorld(t)
	w.want(create(), "PoolCreated")
	w.want(IssueRegistrationToken{Token: digest("t1"), Expires: start}, "invalid_argument")
	w.want(IssueRegistrationToken{Token: "nonsense", Expires: start.Add(time.Hour)}, "invalid_argument")
	w.want(IssueRegistrationToken{Token: digest("t1"), Expires: start.Add(TokenLifeMax + time.Second)},
		"invalid_argument")
	w.want(IssueRegistrationToken{Token: digest("t1"), Expires: start.Add(2 * time.Hour)}, "RegistrationTokenIssued")
	w.want(IssueRegistrationToken{Token: digest("t2"), Expires: start.Add(time.Hour)}, "RegistrationTokenIssued")
	if next, ok := NextWake(w.live); !ok || !next.Equal(start.Add(time.Hour)) {
		t.Errorf("wakes at %s, %t", next, ok)
	}
	w.want(Wake{}, "nothing new")
	w.now = start.Add(time.Hour)
	w.want(register("t2", "m1"), "registration_token_invalid") // expired, though nobody cleaned up yet
	w.want(Wake{}, "RegistrationTokensExpired")
	w.want(register("t1", "m1"), "RunnerRegistered")
	if _, ok := NextWake(w.live); ok {
		t.Error("wakes for no token")
	}
}

func TestSessions(t *testing.T) {
	w := newWorld(t)
	w.want(create(), "PoolCreated")
	for _, name := range []string{"m1", "m2"} {
		w.want(IssueRegistrationToken{Token: digest(name), Expires: start.Add(time.Hour)}, "RegistrationTokenIssued")
		w.want(register(name, name), "RunnerRegistered")
	}
	if r, ok := w.live.Session("ses_m1", digest("resume m1")); !ok || r.Runner != "rnr_m1" {
		t.Errorf("session of %+v", r)
	}
	for _, pair := range [][2]string{{"ses_m1", "resume m2"}, {"ses_m3", "resume m1"}, {"", ""}} {
		if _, ok := w.live.Session(domain.SessionID(pair[0]), digest(pair[1])); ok {
			t.Errorf("%v is a session", pair)
		}
	}
	w.want(RotateSession{Runner: "rnr_m1", Session: "ses_m2", Resume: digest("x")}, "already_exists")
	w.want(RotateSession{Runner: "rnr_m9", Session: "ses_x", Resume: digest("x")}, "not_found")
	w.want(RotateSession{Runner: "rnr_m1", Session: "ses_x"}, "invalid_argument")
	w.want(RotateSession{Runner: "rnr_m1", Session: "ses_x", Resume: digest("x")}, "SessionRotated")
	w.want(RotateSession{Runner: "rnr_m1", Session: "ses_x", Resume: digest("x")}, "nothing new")
	if _, ok := w.live.Session("ses_m1", digest("resume m1")); ok {
		t.Error("the session from before is still good")
	}
}

func TestRegistrationIsChecked(t *testing.T) {
	for field, change := range map[string]func(*RegisterRunner){
		"name":          func(c *RegisterRunner) { c.RunnerName = "" },
		"control":       func(c *RegisterRunner) { c.RunnerName = "a\x1b[31m" },
		"long name":     func(c *RegisterRunner) { c.RunnerName = strings.Repeat("x", 200) },
		"capacity":      func(c *RegisterRunner) { c.Capacity = 0 },
		"much capacity": func(c *RegisterRunner) { c.Capacity = 1001 },
		"isolation":     func(c *RegisterRunner) { c.Isolation = "magic" },
		"label":         func(c *RegisterRunner) { c.Labels = []string{"a b"} },
		"many labels":   func(c *RegisterRunner) { c.Labels = slices.Repeat([]string{"x"}, 65) },
		"resume":        func(c *RegisterRunner) { c.Resume = "none" },
		"session":       func(c *RegisterRunner) { c.Session = "" },
	} {
		w := newWorld(t)
		w.want(create(), "PoolCreated")
		w.want(IssueRegistrationToken{Token: digest("t"), Expires: start.Add(time.Hour)}, "RegistrationTokenIssued")
		c := register("t", "m1")
		change(&c)
		if got, _ := w.do(c); got != "invalid_argument" {
			t.Errorf("bad %s: %s", field, got)
		}
	}
}

func TestPoolsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*CreatePool){
		"tenant":    func(c *CreatePool) { c.Tenant = "" },
		"name":      func(c *CreatePool) { c.Pool = "../x" },
		"no tier":   func(c *CreatePool) { c.Config.Tiers = nil },
		"tier":      func(c *CreatePool) { c.Config.Tiers = []domain.Tier{"root"} },
		"isolation": func(c *CreatePool) { c.Config.Isolation = nil },
		"label":     func(c *CreatePool) { c.Config.Labels = []string{""} },
		"alias":     func(c *CreatePool) { c.Config.Aliases = []Alias{{Pattern: "*"}} },
	} {
		c := create()
		change(&c)
		if got, _ := newWorld(t).do(c); got != "invalid_argument" {
			t.Errorf("bad %s: %s", name, got)
		}
	}
}

func TestLabelsAndAliases(t *testing.T) {
	s := New()
	s.Config = DefaultConfig()
	s.Config.Labels = []string{"Lab"}
	r := Runner{Labels: []string{"gpu", "GPU"}, OS: "linux", Arch: "amd64"}
	if got := s.LabelsOf(r); !slices.Equal(got, []string{"gpu", "lab", "linux", "amd64"}) {
		t.Errorf("labels %v", got)
	}
	if got := s.AliasesOf(r); !slices.Equal(got, []string{"linux-*", "ubuntu-*"}) {
		t.Errorf("aliases %v", got)
	}
	if got := s.AliasesOf(Runner{OS: "darwin"}); len(got) != 0 {
		t.Errorf("aliases %v on another system", got)
	}
}

func TestCheckFinds(t *testing.T) {
	good := Runner{Runner: "r1", Name: "m1", Session: "s1", Token: "t1", Capacity: 1, Isolation: "oci"}
	for name, s := range map[string]*State{
		"events without a pool": {Version: 1},
		"two of a name":         {Pool: "p", Config: DefaultConfig(), Runners: []Runner{good, good}},
		"no capacity":           {Pool: "p", Config: DefaultConfig(), Runners: []Runner{{Runner: "r"}}},
		"a token used twice": {Pool: "p", Config: DefaultConfig(), Runners: []Runner{good},
			Tokens: []Token{{Digest: "t1"}}},
	} {
		if Check(s) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestStoredEvents pins the stored form of every event; see testdata/event.
// Promises: [FORMAT-1].
func TestStoredEvents(t *testing.T) {
	base := Base{start}
	actor := domain.Actor{Kind: "user", ID: "ada", Via: "admin_token"}
	config := DefaultConfig()
	config.Labels = []string{"lab"}
	events := []Event{
		&PoolCreated{base, actor, domain.DefaultTenant, "default", config},
		&RegistrationTokenIssued{base, Token{digest("t"), start, start.Add(time.Hour), actor}},
		&RegistrationTokensExpired{base, []domain.Digest{digest("t")}},
		&RunnerRegistered{base, Runner{
			"rnr_1", "m1", []string{"gpu"}, 2, "oci", "1", "linux", "amd64", "ses_1", digest("r"), digest("t"), start,
		}},
		&RunnerRemoved{base, actor, "rnr_1", "gone"},
		&SessionRotated{base, "rnr_1", "ses_2", digest("r2")},
	}
	for _, e := range events {
		text, err := EncodeEvents([]Event{e}, codec.FormatPacked-1)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("testdata/event/%s.1.json", e.Name()), text)
		data, err := EncodeEvents([]Event{e}, codec.Format)
		if err != nil {
			t.Fatal(err)
		}
		codectest.Packed(t, fmt.Sprintf("testdata/event/%s.3.hex", e.Name()), data, *rewrite)
		for _, data := range [][]byte{text, data} {
			if again, err := DecodeEvents(data); err != nil || !reflect.DeepEqual(again, []Event{e}) {
				t.Errorf("%s comes back as another event: %v", e.Name(), err)
			}
		}
	}
	if _, err := DecodeEvents([]byte(`[{"t":"RunnerTeleported","d":{}}]`)); err == nil {
		t.Error("decoded an unknown event")
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && *rewrite {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		err = os.WriteFile(file, pretty.Bytes(), 0o644)
		want = pretty.Bytes()
	}
	if err != nil || !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("%s: what is stored is for ever; a changed form is a new version (%v)\n%s", file, err, pretty.Bytes())
	}
}

// A registration costs the same in a pool of ten runners and of thousands.
func TestARegistrationLooksAtNoOtherRunner(t *testing.T) {
	cost := func(runners int) int {
		s := New()
		Evolve(s, &PoolCreated{Base{start}, domain.Actor{}, "tnt_a", "default", DefaultConfig()})
		token := func(i int) domain.Digest { return domain.DigestOf(fmt.Append(nil, "token", i)) }
		for i := range runners {
			Evolve(s, &RunnerRegistered{Base{start}, Runner{Runner: domain.RunnerID(fmt.Sprint("rnr_", i)),
				Name: fmt.Sprint("agent-", i), Session: domain.SessionID(fmt.Sprint("ses_", i)), Token: token(i)}})
		}
		Evolve(s, &RegistrationTokenIssued{Base{start}, Token{Digest: token(runners), Expires: start.Add(time.Hour)}})
		mine, resume, i := token(runners), token(0), 1_000_000
		return int(testing.AllocsPerRun(20, func() {
			i++
			d, rejection := Decide(s, RegisterRunner{Token: mine, Runner: domain.RunnerID(fmt.Sprint("rnr_", i)),
				Session: "ses_new", Resume: resume, RunnerName: "new", Capacity: 1, Isolation: "process"}, start)
			if rejection != nil || len(d.Events) != 1 {
				t.Fatal(rejection)
			}
		}))
	}
	if few, many := cost(10), cost(5000); many > few {
		t.Errorf("%d allocations among 10 runners, %d among 5000", few, many)
	}
}

// What is found by index is what a walk over all runners finds, after any history.
func TestTheIndexFindsWhatAWalkFinds(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	s := New()
	Evolve(s, &PoolCreated{Base{start}, domain.Actor{}, "tnt_a", "default", DefaultConfig()})
	for i := range 2000 {
		n := random.IntN(max(len(s.Runners), 1))
		switch {
		case len(s.Runners) == 0 || random.IntN(3) > 0:
			Evolve(s, &RunnerRegistered{Base{start}, Runner{Runner: domain.RunnerID(fmt.Sprint("rnr_", i)), Capacity: 1,
				Isolation: "process", Name: fmt.Sprint("agent-", i), Session: domain.SessionID(fmt.Sprint("ses_", i)),
				Resume: "secret", Token: domain.Digest(fmt.Sprint("token-", i))}})
		case random.IntN(2) == 0:
			Evolve(s, &RunnerRemoved{Base{start}, domain.Actor{}, s.Runners[n].Runner, ""})
		default:
			Evolve(s, &SessionRotated{Base{start}, s.Runners[n].Runner, domain.SessionID(fmt.Sprint("ses_again_", i)), "other"})
		}
		if random.IntN(100) == 0 { // as after a start from a checkpoint
			var err error
			if s, err = DecodeState(EncodeState(s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := Check(s); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Runners {
		if found, ok := s.Session(r.Session, r.Resume); !ok || found.Runner != r.Runner {
			t.Errorf("session %s finds %s (%v)", r.Session, found.Runner, ok)
		}
	}
	if x := s.index; len(x.ids) != len(s.Runners) || len(x.names) != len(s.Runners) ||
		len(x.sessions) != len(s.Runners) || len(x.tokens) != len(s.Runners) {
		t.Errorf("an index of %d, %d, %d, %d for %d runners", len(x.ids), len(x.names), len(x.sessions), len(x.tokens),
			len(s.Runners))
	}
}
