package redirect

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// reg is the register that the expressions of a rule use, one after the other.
const reg = 1

// Where addresses are in the headers of IPv4 and IPv6, and the destination port in
// that of TCP.
const (
	v4Destination, v6Destination = 16, 24
	portOffset, portSize         = 2, 2
)

// shares is how many parts a canary's share is counted in.
const shares = 1 << 16

// rules returns the rules of a chain for a route.
func (t Table) rules(chain string, r Route) (rules [][]expr.Any) {
	if chain == guarding {
		for _, port := range t.Private {
			rules = append(rules, slices.Concat(toPort(port), fromElsewhere(), notRedirected(), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}))
		}
		return rules
	}
	if r.Canary != 0 && r.Share > 0 {
		rules = append(rules, slices.Concat(t.Public.match(), byChance(r.Share), changePort(r.Canary)))
	}
	if r.To != 0 {
		rules = append(rules, slices.Concat(t.Public.match(), changePort(r.To)))
	}
	return rules
}

// match matches connections to the public port of this machine, and none to that
// of others, which pass through.
func (p Public) match() []expr.Any {
	ip := p.Addr.Addr()
	exprs := toPort(p.Addr.Port())
	switch {
	case ip.Is4():
		exprs = append(exprs, family(unix.NFPROTO_IPV4)...)
	case p.V6Only, !ip.IsUnspecified():
		exprs = append(exprs, family(unix.NFPROTO_IPV6)...)
	}
	if ip.IsUnspecified() {
		return append(exprs,
			&expr.Fib{Register: reg, FlagDADDR: true, ResultADDRTYPE: true},
			equal(binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)))
	}
	offset := uint32(v4Destination)
	if !ip.Is4() {
		offset = v6Destination
	}
	address := ip.WithZone("").AsSlice()
	return append(exprs,
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(address))},
		equal(address))
}

// toPort matches TCP packets to a port.
func toPort(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
		equal([]byte{unix.IPPROTO_TCP}),
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: portSize},
		equal(binary.BigEndian.AppendUint16(nil, port)),
	}
}

func family(f byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg}, equal([]byte{f})}
}

func equal(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: data} }

// byChance matches a share of all packets, each by itself.
func byChance(share float64) []expr.Any {
	return []expr.Any{
		&expr.Numgen{Register: reg, Modulus: shares, Type: unix.NFT_NG_RANDOM},
		&expr.Byteorder{SourceRegister: reg, DestRegister: reg, Op: expr.ByteorderHton, Len: 4, Size: 4}, // cmp goes byte by byte
		&expr.Cmp{Op: expr.CmpOpLt, Register: reg, Data: binary.BigEndian.AppendUint32(nil, uint32(math.Round(min(share, 1)*shares)))},
	}
}

// shareOf is the inverse of what byChance compares with.
func shareOf(data []byte) float64 { return float64(binary.BigEndian.Uint32(data)) / shares }

// changePort sends a connection to another port of the address that it is for.
func changePort(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: reg, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(nftables.TableFamilyINet), RegProtoMin: reg, RegProtoMax: reg, Specified: true},
	}
}

// loopback is ARPHRD_LOOPBACK of linux/if_arp.h.
const loopback = 772

// fromElsewhere matches packets that do not come from this machine.
func fromElsewhere() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFTYPE, Register: reg},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: binary.NativeEndian.AppendUint16(nil, loopback)},
	}
}

// redirected is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h: the
// connection's destination was changed.
const redirected = 1 << 5

func notRedirected() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: reg},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: binary.NativeEndian.AppendUint32(nil, redirected), Xor: make([]byte, 4)},
		equal(make([]byte, 4)),
	}
}

// readable returns those of the expressions that the library can read back.
func readable(exprs []expr.Any) (known []expr.Any) {
	for _, e := range exprs {
		if _, ok := e.(*expr.Byteorder); !ok {
			known = append(known, e)
		}
	}
	return known
}
