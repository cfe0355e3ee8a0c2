package domain

import (
	"encoding/json"
	"testing"
)

// Identifiers, digests and tokens are in history, in keys of objects, in URLs and in what clients
// have stored: the text that was made once is made and read for ever.
// Promises: [FORMAT-18].
func TestFrozenTexts(t *testing.T) {
	id := [16]byte{0x01, 0x93, 0x7a, 0x2b, 0x5c, 0x00, 0x70, 0x01, 0x80, 0x02, 0x00, 0x00, 0x00, 0xff, 0xfe, 0xfd}
	run := RunID(EncodeID(PrefixRun, id))
	token := Token{Partition: "main-0", Epoch: 3, Position: 231, Digest: DigestOf([]byte("x")),
		Proof: "00112233445566ff.c95ETYS-JXvRn3tBMidQ3w"}
	proven, err := json.Marshal(token)
	if err != nil {
		t.Fatal(err)
	}
	for want, got := range map[string]string{
		"run_01jdx2pq00e00r00g0000fzzqx":      string(run),
		"rep_7zzzzzzzzzzzzzzzzzzzzzzzzz":      EncodeID(PrefixRepository, full()),
		"rnr_00000000000000000000000000":      EncodeID(PrefixRunner, [16]byte{}),
		"job_01jdx2pq00e00r00g0000fzzqx_12":   string(run.Job(12)),
		"att_01jdx2pq00e00r00g0000fzzqx_12_3": string(run.Job(12).Attempt(3)),
		"run/run_01jdx2pq00e00r00g0000fzzqx":  string(run.Stream()),
		"repository/rep_1":                    string(RepositoryID("rep_1").Stream()),
		"pool/default":                        string(PoolID("default").Stream()),
		"pool-default":                        string(PoolID("default").Partition()),
		"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881":       string(DigestOf([]byte("x"))),
		"main-0:3:231:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881": token.String(),
		`{"Partition":"main-0","Epoch":3,"Position":231,` +
			`"Digest":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",` +
			`"Proof":"00112233445566ff.c95ETYS-JXvRn3tBMidQ3w"}`: string(proven),
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if Checksum([]byte("x")) != 0x2d711642b726b044 {
		t.Error("the checksum of a chunk is another")
	}
	if got, job, number, ok := AttemptID("att_01jdx2pq00e00r00g0000fzzqx_12_3").Split(); !ok || got != run || job != 12 ||
		number != 3 {
		t.Errorf("the attempt is read as %s, %d, %d, %v", got, job, number, ok)
	}
	if got, index, ok := JobID("job_01jdx2pq00e00r00g0000fzzqx_12").Split(); !ok || got != run || index != 12 {
		t.Errorf("the job is read as %s, %d, %v", got, index, ok)
	}
	if !ValidID(PrefixRun, string(run)) || !ValidID(PrefixRepository, "rep_7zzzzzzzzzzzzzzzzzzzzzzzzz") {
		t.Error("an identifier is not one any more")
	}
	read, ok := ParseProvenToken("main-0:3:231:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
		"00112233445566ff.c95ETYS-JXvRn3tBMidQ3w")
	if !ok || read != token {
		t.Errorf("the token is read as %+v, %v", read, ok)
	}
}

func full() (id [16]byte) {
	for i := range id {
		id[i] = 0xff
	}
	return id
}
