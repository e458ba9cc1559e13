package messages_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "lockstep/messages"
)

// shared are the answers that several requests have; their comments name the requests.
var shared = []string{"ChangeFilesResult", "LogChangeResult"}

// The name of an answer is the name of its request with Result.
func TestAnAnswerIsNamedAfterItsRequest(t *testing.T) {
	names := map[string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			if name := file.Messages().Get(i).FullName(); name.Parent() == "lockstep.messages" {
				names[string(name.Name())] = true
			}
		}
		return true
	})
	require.Greater(t, len(names), 100)
	for name := range names {
		if request, isAnswer := strings.CutSuffix(name, "Result"); isAnswer && !slices.Contains(shared, name) {
			require.True(t, names[request], "%s is the answer to %s, which is not there", name, request)
		}
	}
}
