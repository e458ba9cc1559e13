package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParagraphsOfHelpFlow(t *testing.T) {
	require.Equal(t, `Lines of a paragraph are joined, and all but the last have about the same
length, as here:
  a table stays
    as it is

Another paragraph.
Exit code: 0; 1 if not.`, flow(`Lines of a paragraph
are joined, and all but the last have about the same length, as here:
  a table stays
    as it is

Another paragraph.
Exit code: 0; 1 if
not.`))
}
