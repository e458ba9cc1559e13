package configstore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/paths"
)

// foreign is a config.data of another program.
func foreign(t testing.TB) []byte {
	return bytes.Replace(initial(t), []byte(`"serial_no": 43`), []byte(`"serial_no": 9`), 1)
}

func (b *bench) check() *configstore.Checked {
	b.ask(func(n uint64) any { return &configstore.Check{Request: n} })
	return kittest.Expect[*configstore.Checked](b.client)
}

func (b *bench) resolve(request func(n uint64) any) *configstore.ForeignResolved {
	b.ask(request)
	return kittest.Expect[*configstore.ForeignResolved](b.client)
}

func (b *bench) adopt() *configstore.ForeignResolved {
	return b.resolve(func(n uint64) any { return &configstore.Adopt{Request: n} })
}

func (b *bench) discard() *configstore.ForeignResolved {
	return b.resolve(func(n uint64) any { return &configstore.Discard{Request: n} })
}

// requireRefused requires that changes fail with a text for the operator.
func (b *bench) requireRefused() {
	b.Helper()
	state, records := b.state, b.records
	b.send(b.record())
	m := kittest.Expect[*configstore.AddRecordsResult](b.client)
	b.state, b.records = state, records
	require.ErrorContains(b, m.Failure, "config.data was changed by another program: ")
	require.ErrorContains(b, m.Failure, "lockstep config adopt")
	require.Equal(b, "ConfigurationError", m.Failure.Class)
}

func TestATouchIsNoForeignChange(t *testing.T) {
	onBench(t, func(b *bench) {
		b.disk.Touch(paths.ConfigPath)
		require.Nil(t, b.check().Foreign)
		b.change()
		b.disk.Touch(paths.ConfigPath)
		require.Nil(t, b.flush())
		b.overwrite(paths.ConfigPath, append([]byte(" "), b.state.Config.JSON()...))
		require.Nil(t, b.check().Foreign, "the content is the same")
		b.change()
		require.Nil(t, b.flush())
		b.agree()
	})
}

func TestAForeignChangeIsAdopted(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		require.Nil(t, b.flush())
		b.Advance(time.Minute)
		b.change()
		b.overwrite(paths.ConfigPath, foreign(t))
		b.Advance(time.Minute)
		require.Equal(t, string(foreign(t)), b.content(paths.ConfigPath), "the fold does not replace it")
		b.requireRefused()
		require.NotNil(t, b.flush())
		require.NotNil(t, b.check().Foreign)
		require.Len(t, b.Logged("config.data was changed by another program; no change is written until lockstep config adopt or discard"), 1)

		require.Nil(t, b.adopt().Failure)
		require.Contains(t, b.namesIn("."), "config.journal.unused-2")
		m := b.load()
		require.EqualValues(t, 9, m.State.Config.Serial)
		require.EqualValues(t, 2, m.Number)
		require.Nil(t, b.check().Foreign)
		b.change()
		b.agree()
		b.reboot(nil)
		b.agree()
	})
}

func TestAForeignChangeIsDiscarded(t *testing.T) {
	onBench(t, func(b *bench) {
		b.overwrite(paths.ConfigPath, foreign(t))
		require.NotNil(t, b.check().Foreign)
		b.requireRefused()
		require.Nil(t, b.discard().Failure)
		require.Equal(t, string(b.state.Config.JSON()), b.content(paths.ConfigPath))
		b.change()
		b.agree()
		require.Nil(t, b.discard().Failure, "without a foreign change it is a flush")
		require.Nil(t, b.adopt().Failure, "without a foreign change it has no effect")
		b.agree()
	})
}

func TestAForeignChangeThatCannotBeUsed(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"removed":   func(b *bench) { require.NoError(b, b.disk.Remove("test", paths.ConfigPath)) },
		"no config": func(b *bench) { b.overwrite(paths.ConfigPath, []byte("{}")) },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				change(b)
				require.NotNil(t, b.check().Foreign)
				require.NotNil(t, b.adopt().Failure)
				b.requireRefused()
				require.Nil(t, b.discard().Failure)
				b.change()
				b.agree()
			})
		})
	}
}

// If the operator restores the former content, the file counts as unchanged.
func TestAForeignChangeIsTakenBack(t *testing.T) {
	onBench(t, func(b *bench) {
		before := []byte(b.content(paths.ConfigPath))
		b.overwrite(paths.ConfigPath, foreign(t))
		require.NotNil(t, b.check().Foreign)
		b.overwrite(paths.ConfigPath, before)
		require.Nil(t, b.check().Foreign)
		b.change()
		require.Nil(t, b.flush())
		b.agree()
	})
}

// At the start the file counts: the journal of another config.data is set aside.
func TestAForeignFileAtTheStart(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		b.change()
		b.reboot(func() { b.overwrite(paths.ConfigPath, foreign(t)) })
		m := b.load()
		require.EqualValues(t, 9, m.State.Config.Serial)
		require.EqualValues(t, 2, m.Number)
		require.Contains(t, b.namesIn("."), "config.journal.unused-2")
		require.NotContains(t, b.namesIn("."), "config.journal")
		require.Len(t, b.Logged("config.data was written by another program; its content counts, and the journal of the configuration is set aside"), 1)
		b.change()
		b.reboot(nil)
		b.agree()
	})
}
