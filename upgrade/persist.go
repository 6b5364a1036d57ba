package upgrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A Store keeps descriptors for the time when there is no supervisor; a *systemd.Notifier is one.
type Store interface {
	// Store keeps a duplicate of fd, which is borrowed, under a name.
	Store(name string, fd *fdpass.FD) error
	// Unstore lets go of it.
	Unstore(name string) error
}

// persist writes down everything that it takes to take the service over, and has every socket kept. It is called after
// each change that the next supervisor would have to know of. It blocks only as long as writing a small file takes.
func (s *Supervisor) persist() {
	if s.opts.StatePath == "" || s.parted {
		return
	}
	saved, sockets := s.save()
	s.keeper.sync(sockets, s.generations)
	b, err := json.Marshal(saved)
	if err == nil && bytes.Equal(b, s.persisted) {
		return
	}
	if err == nil {
		err = writeSaved(s.opts.StatePath, b)
	}
	if err != nil {
		if text := err.Error(); text != s.unpersisted { // once for each reason
			s.unpersisted = text
			s.log.Error("cannot write the state file: if the supervisor dies now, the next one cannot take the service over", "cause", err)
		}
		return
	}
	if s.unpersisted != "" {
		s.unpersisted = ""
		s.log.Info("the state file can be written again")
	}
	s.persisted = b
}

// save describes the state. It returns the sockets too, in the order of Saved.Sockets.
func (s *Supervisor) save() (*Saved, []fdpass.Socket) {
	v := &Saved{
		Version: savedVersion, Boot: s.boot, Phase: s.state.Phase.String(), Number: s.number, Handoffs: s.handoffs,
		Orphan: s.orphan, Last: s.last, Uncarried: s.uncarried, LastRelease: s.lastRelease, GoBack: s.goBack, Sockets: []fdpass.Snapshot{}, Generations: []savedGeneration{},
	}
	if s.plan != nil {
		v.Plan = s.plan.Source
	}
	t := socketTable{index: make(map[fdpass.Socket]int), saved: v}
	v.Bound = t.add(s.bound)
	for _, g := range s.sorted() {
		bound, inodes := t.addWith(g.bound, g.inodes)
		v.Generations = append(v.Generations, savedGeneration{
			Number: g.number, Release: g.release, Role: g.role, Kind: g.kind, PID: g.process.Pid(), StartTime: g.process.StartTime(),
			UID: g.uid, Cgroup: g.cgroupName(), Plan: g.plan.Source, Bound: bound, Inodes: inodes,
			Status: g.status, Started: s.clock.moment(g.started), Ready: s.clock.moment(g.ready), Lived: s.clock.moment(g.lived), Why: g.why, Served: g.served,
			Telling: g.telling, Told: g.wasTold(), Open: g.open, Deaf: g.deaf,
			ReplacedBy: g.replacedBy, OnProbation: g.onProbation,
		})
	}
	if s.live != nil {
		v.Live = s.live.number
	}
	if h := s.hand; h != nil {
		sh := &savedHandoff{Record: h.record, Began: s.clock.moment(h.record.Began), Bound: t.add(h.bound)}
		if h.plan != nil {
			sh.Plan = h.plan.Source
		}
		if h.prepared != nil && h.prepared.Command.Credential != nil {
			sh.UID = h.prepared.Command.Credential.UID
		} else {
			sh.UID = uint32(os.Geteuid())
		}
		if h.gen != nil {
			sh.New = h.gen.number
		}
		if h.pointed != nil {
			sh.Pointed = &savedPointing{h.pointed.from, h.pointed.to}
		}
		v.Handoff = sh
	}
	return v, t.sockets
}

// A socketTable numbers sockets.
type socketTable struct {
	saved   *Saved
	index   map[fdpass.Socket]int
	sockets []fdpass.Socket
}

// add returns bound in numbers. One that is closed is left out.
func (t *socketTable) add(bound []fdpass.Bound) []savedBound {
	list, _ := t.addWith(bound, nil)
	return list
}

// addWith is add for sockets whose inodes are known, which are in the same order: of one that is closed both are left out.
func (t *socketTable) addWith(bound []fdpass.Bound, inodes []uint64) ([]savedBound, []uint64) {
	list, kept := make([]savedBound, 0, len(bound)), make([]uint64, 0, len(inodes))
	for at, b := range bound {
		i, known := t.index[b.Socket]
		if !known {
			snapshot, err := b.Socket.Snapshot()
			if err != nil {
				continue
			}
			i = len(t.sockets)
			t.index[b.Socket] = i
			t.sockets = append(t.sockets, b.Socket)
			t.saved.Sockets = append(t.saved.Sockets, snapshot)
		}
		list = append(list, savedBound{i, b.Spec})
		if at < len(inodes) {
			kept = append(kept, inodes[at])
		}
	}
	return list, kept
}

// A keeper has the kernel sockets that are in use kept in a Store, and no others.
type keeper struct {
	store Store // nil for none
	warn  func(err error)
	log   *slog.Logger

	mu   sync.Mutex
	kept map[string]bool
}

// add has the sockets of bound kept. It may be called from a step: before a generation gets a socket, it has to be safe.
func (k *keeper) add(bound []fdpass.Bound) {
	if k.store == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range bound {
		k.keepLocked(b.Socket, nil)
	}
}

// addReceiver has a generation's notify socket kept, so that what it says is heard by the next supervisor.
func (k *keeper) addReceiver(g *generation) {
	if k.store == nil || g.receiver == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keepReceiverLocked(g, nil)
}

// notifyID is the name under which a generation's notify socket is kept.
func notifyID(generation int) string { return notifyPrefix + strconv.Itoa(generation) }

const notifyPrefix = fdpass.IDPrefix + "notify-"

// keepReceiverLocked has a generation's notify socket kept, and notes it in wanted.
func (k *keeper) keepReceiverLocked(g *generation, wanted map[string]bool) {
	id := notifyID(g.number)
	if wanted != nil {
		wanted[id] = true
	}
	if k.kept[id] {
		return
	}
	fd, err := g.receiver.FD()
	if err != nil {
		return // it is closed: the generation is just gone
	}
	defer fd.Close()
	if err := k.store.Store(id, fd); err != nil {
		k.warn(err)
		return
	}
	k.kept[id] = true
}

// forget lets go of what is kept under a name, so that another one can be kept under it.
func (k *keeper) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store == nil || !k.kept[id] {
		return
	}
	if err := k.store.Unstore(id); err != nil {
		k.warn(err)
	}
	delete(k.kept, id)
}

// sync has these sockets kept, and the generations' notify sockets, and lets go of all others.
func (k *keeper) sync(sockets []fdpass.Socket, generations map[int]*generation) {
	if k.store == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := make(map[string]bool)
	for _, s := range sockets {
		k.keepLocked(s, wanted)
	}
	for _, g := range generations {
		if g.receiver != nil {
			k.keepReceiverLocked(g, wanted)
		}
		k.keepListenerLocked(g, wanted)
	}
	for id := range k.kept {
		if wanted[id] {
			continue
		}
		if err := k.store.Unstore(id); err != nil {
			k.warn(err)
			continue
		}
		delete(k.kept, id)
	}
}

// keepLocked has the parts of a socket kept, and notes them in wanted.
func (k *keeper) keepLocked(s fdpass.Socket, wanted map[string]bool) {
	err := s.EachPart(func(id string, fd *fdpass.FD) error {
		if wanted != nil {
			wanted[id] = true
		}
		if k.kept[id] {
			return nil
		}
		if err := k.store.Store(id, fd); err != nil {
			return err
		}
		k.kept[id] = true
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrClosed) {
		k.warn(err)
	}
}
