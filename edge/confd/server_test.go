package confd

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/core/confd"
	"lockstep/core/config/model"
)

const (
	key     = "0123456789012345678901234567890123456789\n"
	another = "9876543210987654321098765432109876543210\n"
)

// start starts a server on loopback with the configuration of the recordings. keys are the contents of hmac.key and hmac.key.other.
func start(t testing.TB, keys ...string) (s *Server, dir string) {
	dir = t.TempDir()
	for i, k := range keys {
		write(t, filepath.Join(dir, []string{"hmac.key", "hmac.key.other"}[i]), k)
	}
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	s, err := Listen(Config{Log: log, Address: "127.0.0.1:0", DataDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	raw, err := os.ReadFile("../../core/confd/testdata/config.data")
	require.NoError(t, err)
	config, err := model.Decode(raw)
	require.NoError(t, err)
	s.Use(confd.NewSnapshot(config, nil))
	return s, dir
}

// write replaces a file, as every writer of keys does.
func write(t testing.TB, path, content string) {
	require.NoError(t, os.WriteFile(path+".new", []byte(content), 0o440))
	require.NoError(t, os.Rename(path+".new", path))
}

// ping asks one server; nil if it answers.
func ping(s *Server, key string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return AskAll(ctx, []byte(key), []string{s.Address().String()}, confd.Query{Type: confd.Ping})[0].Err
}

const patience = 20 * time.Second

func TestAServerAnswers(t *testing.T) {
	s, _ := start(t, key)
	require.NoError(t, ping(s, key, patience))
	require.Error(t, ping(s, another, 300*time.Millisecond))
	answers := AskAll(context.Background(), []byte(key), []string{s.Address().String()}, confd.Query{Type: confd.NodeRoleByName, Argument: json.RawMessage(`"node2"`)})
	require.Equal(t, Answer{Address: s.Address().String(), ConfigSerial: 77, Reply: confd.Reply{Protocol: 1, Answer: json.RawMessage("1"), Serial: 42}}, answers[0])
}

func TestTheKeyIsWaitedForAndReplaced(t *testing.T) {
	s, dir := start(t)
	require.Error(t, ping(s, key, 300*time.Millisecond))
	write(t, filepath.Join(dir, "hmac.key"), key)
	require.NoError(t, ping(s, key, patience), "the file is there now")
	write(t, filepath.Join(dir, "hmac.key"), another)
	require.NoError(t, ping(s, another, patience), "another program has replaced it")
	require.NoError(t, ping(s, key, patience), "the former key stays valid for a time")
	require.NoError(t, os.Remove(filepath.Join(dir, "hmac.key")))
	require.NoError(t, ping(s, another, patience), "the key in force stays")
}

func TestTheFormerKeyEnds(t *testing.T) {
	dir := t.TempDir()
	files := newKeyFiles(dir, logrus.New(), false)
	now := time.Unix(1000, 0)
	require.True(t, files.read(now).IsEmpty())
	write(t, filepath.Join(dir, "hmac.key"), key)
	require.Equal(t, 1, files.read(now).Len())
	write(t, filepath.Join(dir, "hmac.key.other"), another)
	require.Equal(t, 2, files.read(now).Len())
	require.NoError(t, os.Remove(filepath.Join(dir, "hmac.key.other")))
	require.Equal(t, 1, files.read(now).Len())
	write(t, filepath.Join(dir, "hmac.key"), another)
	require.Equal(t, 2, files.read(now).Len())
	require.Equal(t, 2, files.read(now.Add(keyOverlap-1)).Len())
	require.Equal(t, 1, files.read(now.Add(keyOverlap)).Len())
	write(t, filepath.Join(dir, "hmac.key"), "")
	require.Equal(t, 1, files.read(now.Add(keyOverlap)).Len(), "an empty file is no key")
}

func TestTwoKeysAreValid(t *testing.T) {
	s, _ := start(t, key, another)
	require.NoError(t, ping(s, key, patience))
	require.NoError(t, ping(s, another, patience))
}

func TestAnAddressInUse(t *testing.T) {
	s, dir := start(t, key)
	_, err := Listen(Config{Log: logrus.New(), Address: s.Address().String(), DataDir: dir})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

// A client that is connected to an address gets datagrams from there only, and a node can have several, such as the cluster's.
func TestAnAnswerComesFromTheAddressThatWasAsked(t *testing.T) {
	for _, c := range []struct{ network, address string }{
		{"udp", "0.0.0.0:0"},
		{"udp", "[::]:0"},
		{"udp", "127.0.0.2:0"},
		{"udp4", "0.0.0.0:0"}, // what "udp" is on a machine without IPv6
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "hmac.key"), key)
		s, err := listen(c.network, Config{Log: logrus.New(), Address: c.address, DataDir: dir})
		require.NoError(t, err)
		defer s.Close()
		_, port, err := net.SplitHostPort(s.Address().String())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		answers := AskAll(ctx, []byte(key), []string{net.JoinHostPort("127.0.0.2", port)}, confd.Query{Type: confd.Ping})
		cancel()
		require.NoError(t, answers[0].Err, c)
	}
}

func TestTheFreshestAnswerWins(t *testing.T) {
	stale, _ := start(t, key)
	fresh, _ := start(t, key)
	none, _ := start(t, key)
	none.Use(nil)
	raw, err := os.ReadFile("../../core/confd/testdata/config.data")
	require.NoError(t, err)
	config, err := model.Decode([]byte(strings.Replace(string(raw), `"serial_no": 77`, `"serial_no": 78`, 1)))
	require.NoError(t, err)
	fresh.Use(confd.NewSnapshot(config, nil))
	dead, err := net.ListenPacket("udp", "127.0.0.1:0") // silent
	require.NoError(t, err)
	defer dead.Close()
	addresses := []string{dead.LocalAddr().String(), none.Address().String(), stale.Address().String(), fresh.Address().String()}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers := AskAll(ctx, []byte(key), addresses, confd.Query{Type: confd.Ping})
	require.Equal(t, 3, Freshest(answers))
	require.Error(t, answers[0].Err)
	require.NoError(t, ctx.Err(), "a silent node delays nothing")
	require.Equal(t, confd.StatusError, answers[1].Reply.Status)
	require.Equal(t, -1, Freshest([]Answer{{Err: os.ErrClosed}}))
}

// flood sends packets as fast as one core can, until the context ends.
func flood(ctx context.Context, t testing.TB, s *Server, packets [][]byte, sent *atomic.Int64) {
	conn, err := net.Dial("udp", s.Address().String())
	require.NoError(t, err)
	defer conn.Close()
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := conn.Write(packets[i%len(packets)]); err == nil {
			sent.Add(1)
		}
	}
}

// hostile are forged packets of all kinds.
func hostile() [][]byte {
	forged := confd.Query{Type: confd.ClusterMaster}.Request([]byte(another), time.Now(), "salt")
	random := rand.New(rand.NewPCG(1, 2))
	packets := [][]byte{forged, forged[:60], append(slices.Clone(forged), make([]byte, 60000)...), {}, []byte("plj0"), []byte("GET / HTTP/1.1\r\n\r\n")}
	for range 20 {
		packet := make([]byte, random.IntN(1500))
		for i := range packet {
			packet[i] = byte(random.Uint32())
		}
		packets = append(packets, packet, append([]byte("plj0{"), packet...))
	}
	for range 20 {
		packets = append(packets, forged)
	}
	return packets
}

// Signed queries are answered beside a flood, forged packets are counted and not answered, and memory does not grow.
func TestAFloodOfForgedPackets(t *testing.T) {
	s, _ := start(t, key)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var sent atomic.Int64
	var flooding sync.WaitGroup
	flooding.Go(func() { flood(ctx, t, s, hostile(), &sent) })
	before := memory()
	asked := 0
	for ctx.Err() == nil {
		require.NoError(t, ping(s, key, patience))
		asked++
	}
	flooding.Wait()
	require.NotZero(t, asked)
	require.Less(t, int64(memory())-int64(before), int64(16<<20))
	forged := s.counts[confd.DroppedPacket].Load() + s.counts[confd.DroppedSignature].Load()
	t.Logf("%d packets sent, %d of them received, %d pauses, %d queries answered beside them", sent.Load(), forged, s.limit.pauses.Load(), asked)
	require.NotZero(t, forged)
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(s))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 4)
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The bound is global: in each slice of time there are at most so many forged packets, and then a pause.
func TestTheBoundOfForgedPackets(t *testing.T) {
	var l forgeryLimit
	now := time.Unix(5, 0)
	for range forgedMax - 1 {
		require.Zero(t, l.forged(confd.DroppedSignature, now))
	}
	require.Zero(t, l.forged(confd.DroppedClock, now), "its sender has the key")
	require.Equal(t, forgedSlice-time.Millisecond, l.forged(confd.DroppedPacket, now.Add(time.Millisecond)))
	require.Zero(t, l.forged(confd.DroppedPacket, now.Add(forgedSlice)), "the next slice")
	require.EqualValues(t, 1, l.pauses.Load())
}

// clients send signed queries of the four frequent types and wait for the answers, and count them.
func clients(ctx context.Context, t testing.TB, address, key string, count int) (answered *atomic.Int64, done *sync.WaitGroup) {
	answered, done = &atomic.Int64{}, &sync.WaitGroup{}
	queries := []confd.Query{{Type: confd.Ping}, {Type: confd.NodeRoleByName, Argument: json.RawMessage(`"node2.gnt.example"`)},
		{Type: confd.NodePrimaryIPByInstanceIP, Argument: json.RawMessage(`{"1":"198.51.100.11"}`)}, {Type: confd.ClusterMaster}}
	for range count {
		done.Go(func() {
			conn, err := net.Dial("udp", address)
			require.NoError(t, err)
			defer conn.Close()
			var packets [][]byte
			for i, q := range queries {
				packets = append(packets, q.Request([]byte(key), time.Now(), fmt.Sprint("salt", i)))
			}
			buffer := make([]byte, packetMax)
			const window = 16 // queries under way
			for i := 0; ctx.Err() == nil; {
				for range window {
					_, _ = conn.Write(packets[i%len(packets)])
					i++
				}
				for range window {
					_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
					if _, err := conn.Read(buffer); err != nil {
						break
					}
					answered.Add(1)
				}
			}
		})
	}
	return answered, done
}

// BenchmarkSignedAnswers measures a server with 1,000 instances. The time of the clients is subtracted by the processor time of the
// server alone: it is run with LOCKSTEP_CONFD=host:port and LOCKSTEP_CONFD_KEY against another process.
func BenchmarkSignedAnswers(b *testing.B) {
	address, with := os.Getenv("LOCKSTEP_CONFD"), key
	if address == "" {
		s, _ := start(b, key)
		address = s.Address().String()
	} else {
		content, err := os.ReadFile(os.Getenv("LOCKSTEP_CONFD_KEY"))
		require.NoError(b, err)
		with = string(content)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := time.Now()
	answered, done := clients(ctx, b, address, with, 4)
	for answered.Load() < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(answered.Load())/time.Since(begin).Seconds(), "answers/s")
	cancel()
	done.Wait()
}

// TestServeForMeasurement serves a configuration with 1,000 instances for a measurement from another process, until standard input ends,
// and prints the answers for each second of its processor time: LOCKSTEP_CONFD_SERVE is the address.
func TestServeForMeasurement(t *testing.T) {
	address := os.Getenv("LOCKSTEP_CONFD_SERVE")
	if address == "" {
		t.Skip("NOT RUN: it serves for a measurement; docs/performance.md has the commands")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hmac.key"), key)
	s, err := Listen(Config{Log: logrus.New(), Address: address, DataDir: dir})
	require.NoError(t, err)
	defer s.Close()
	s.Use(confd.NewSnapshot(largeConfig(t, 1000), nil))
	_, _ = os.Stdin.Read(make([]byte, 1))
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	seconds := float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	answered := s.counts[confd.Served].Load() + s.counts[confd.Refused].Load()
	fmt.Printf("%d answers, %.2f s of processor time, %.0f answers a second and core\n", answered, seconds, float64(answered)/seconds)
}

// largeConfig returns the configuration of the recordings with more instances.
func largeConfig(t testing.TB, instances int) *model.Config {
	raw, err := os.ReadFile("../../core/confd/testdata/config.data")
	require.NoError(t, err)
	config, err := model.Decode(raw)
	require.NoError(t, err)
	e := config.Edit()
	sample, _ := config.Instances.Get("10000301-0000-4000-8000-000000000301")
	for i := range instances {
		v := sample.Value
		v.UUID, v.Name, v.Disks = fmt.Sprintf("30000000-0000-4000-8000-%012d", i), model.Some(fmt.Sprintf("guest%d.example", i)), nil
		v.NICs = []model.NIC{{MAC: "aa:00:01:00:00:00", IP: model.Some(fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)), UUID: fmt.Sprintf("40000000-0000-4000-8000-%012d", i)}}
		model.Instances.Put(e, v.UUID, v)
	}
	large, _ := e.Commit(1)
	return large
}

// A captured request makes the server send a few answers to the client that sent it, and none to another address. An answer can have
// 61 kB, and the source of a datagram can be forged.
func TestACapturedRequestIsNotAnsweredForEver(t *testing.T) {
	s, _ := start(t, key)
	server := s.Address().(*net.UDPAddr)
	answersTo := func(source string, packet []byte, times, least int) (answers int) {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(source)}, server)
		require.NoError(t, err)
		defer c.Close()
		before := counted(s)
		for range times {
			_, err := c.Write(packet)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return counted(s) == before+uint64(times) }, patience, time.Millisecond)
		buffer := make([]byte, 1<<16)
		for {
			limit := patience // a packet is counted before it is answered
			if answers >= least {
				limit = 100 * time.Millisecond
			}
			require.NoError(t, c.SetReadDeadline(time.Now().Add(limit)))
			if _, err := c.Read(buffer); err != nil {
				return answers
			}
			answers++
		}
	}
	query := confd.Query{Type: confd.NodeRoleByName, Argument: json.RawMessage(`"node2"`)}
	packet := query.Request([]byte(key), time.Now(), "captured")
	require.Equal(t, 1, answersTo("127.0.0.1", packet, 1, 1))
	require.LessOrEqual(t, answersTo("127.0.0.1", packet, 50, 0), 4)
	require.Zero(t, answersTo("127.0.0.2", packet, 50, 0), "another source")
	require.Equal(t, 1, answersTo("127.0.0.2", query.Request([]byte(key), time.Now(), "another"), 1, 1), "its own")
	require.Positive(t, s.counts[confd.DroppedReplay].Load())
}

// counted is the number of packets that the server has dealt with.
func counted(s *Server) (n uint64) {
	for i := range s.counts {
		n += s.counts[i].Load()
	}
	return n
}
