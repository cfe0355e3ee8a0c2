package runner

import (
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

// identityOne is an identity with a value in every field of the first form.
func identityOne() *identity {
	return &identity{Server: "https://ci.example.com", Name: "r1", Runner: "rnr_00000000000000000000000001",
		Session: "ses_00000000000000000000000002", Pool: "default", Resume: "secret", Labels: []string{"default", "linux"},
		Capacity: 4, Isolation: "namespace",
		Reply: []byte(`{"protocol":1,"runner":"rnr_00000000000000000000000001","keys":[{"id":"k1","ed25519":"AQID"}]}`),
		Boot:  7}
}

// A runner that is replaced is the same to its server.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenIdentity(t *testing.T) {
	form := frozen.Form{Name: "testdata/frozen/identity", Newest: 1, Text: true, Rewrite: *rewrite}
	frozen.Full(t, identityOne())
	dir := t.TempDir()
	if err := identityOne().save(dir); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(dir + "/runner.json")
	if err != nil {
		t.Fatal(err)
	}
	form.Written(t, written)

	old := t.TempDir()
	if err := os.WriteFile(old+"/runner.json", form.Read(t, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := loadIdentity(&Config{Data: old, Server: "https://ci.example.com", Name: "r1"})
	want := identityOne()
	want.Boot++
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("it is read as %+v, %v", got, err)
	}
	reply, err := got.reply()
	if err != nil || reply.GetProtocol() != 1 || len(reply.GetKeys()) != 1 || reply.GetKeys()[0].GetId() != "k1" {
		t.Errorf("the server's answer is read as %v, %v", reply, err)
	}
}
