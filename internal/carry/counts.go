package carry

import "maps"

// A Reason is why a connection was left to those who have it.
type Reason string

const (
	Busy     Reason = "busy"     // it did not come between two requests in time
	Unsuited Reason = "unsuited" // it has socket options that do not go with being parked
	Refused  Reason = "refused"  // this process may not have its descriptor
	Resumed  Reason = "resumed"  // they went on with it after they were told to stop
	Kept     Reason = "kept"     // they did not close it when they were told to stop
	Shut     Reason = "shut"     // they ended it with shutdown(2), which reaches the client
	Ended    Reason = "ended"    // the client ended it meanwhile, or they did before they were told to stop
	Crashed  Reason = "crashed"  // the process that had it did not end by itself
)

// Reasons are all of them.
func Reasons() []Reason {
	return []Reason{Busy, Unsuited, Refused, Resumed, Kept, Shut, Ended, Crashed}
}

// Counts tell what became of the connections of a batch.
type Counts struct {
	Left    map[Reason]int `json:"left,omitempty"`    // connections that were left alone
	Carried int            `json:"carried,omitempty"` // connections that were taken over
	Relayed int            `json:"relayed,omitempty"` // requests on those that were passed on
	Lost    int            `json:"lost,omitempty"`    // connections on which something came that could not be passed on
}

// Found is how many connections there were.
func (c Counts) Found() int {
	n := c.Carried
	for _, left := range c.Left {
		n += left
	}
	return n
}

// Plus returns the sums.
func (c Counts) Plus(d Counts) Counts {
	c = c.clone()
	for why, n := range d.Left {
		if c.Left == nil {
			c.Left = make(map[Reason]int)
		}
		c.Left[why] += n
	}
	c.Carried += d.Carried
	c.Relayed += d.Relayed
	c.Lost += d.Lost
	return c
}

func (c Counts) clone() Counts {
	c.Left = maps.Clone(c.Left)
	return c
}

func (c *Counts) leave(r Reason) {
	if c.Left == nil {
		c.Left = make(map[Reason]int)
	}
	c.Left[r]++
}
