package httpapi

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A comparison is of two runs, and the access decision is asked about each: one that the caller may
// not read is answered like one that is not there, whichever of the two it is.
// Promises: [ACC-2].
func TestBothRunsOfAComparisonAreAskedFor(t *testing.T) {
	mine, theirs := string(testRun), domain.EncodeID(domain.PrefixRun, [16]byte{9})
	w := newWorld(t, func(cfg *Config) {
		cfg.Access = func(_ context.Context, _ credential.Principal, a Action, r Resource) *domain.Rejection {
			if a == ActionRunRead && r.ID == theirs {
				return errHidden()
			}
			return nil
		}
	})
	for _, path := range []string{mine + "/diff/" + theirs, theirs + "/diff/" + mine, theirs + "/replay"} {
		got := w.do("GET", "/api/v1/runs/"+path, "")
		if got.status != 404 || got.info(t).Code != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	// What both lead to is not there in this world, and that is another answer.
	if got := w.do("GET", "/api/v1/runs/"+mine+"/diff/"+mine, ""); got.status == 404 {
		t.Errorf("one's own: %d %s", got.status, got.body)
	}
}

func TestSecondResourcesAreFieldsOfTheirRequests(t *testing.T) {
	for procedure, field := range seconds {
		name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(procedure, "/"), "/", "."))
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		method := found.(protoreflect.MethodDescriptor)
		if method.Input().Fields().ByName(protoreflect.Name(field)) == nil {
			t.Errorf("%s has no field %s", procedure, field)
		}
	}
}
