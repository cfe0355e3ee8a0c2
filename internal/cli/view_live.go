package cli

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"charm.land/lipgloss/v2"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// liveRowsMax bounds the part of the screen that is drawn again and again.
const liveRowsMax = 12

// liveView is for a person at a terminal: lines scroll above, and a few rows at the
// bottom say what every unfinished job does now.
type liveView struct {
	*plainView
	width func() int
	now   func() time.Time

	mu    sync.Mutex // guards drawing: the clock draws beside the follower
	run   *fairleadv1.Run
	drawn int
	over  bool
	stop  chan struct{}
	ended sync.WaitGroup
}

// newLiveView starts the clock of the rows; close stops it.
func newLiveView(out *output, width func() int) *liveView {
	v := &liveView{plainView: newPlainView(out), width: width, now: time.Now, stop: make(chan struct{})}
	v.ended.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				v.draw(nil)
			case <-v.stop:
				return
			}
		}
	})
	return v
}

// changed implements view.
func (v *liveView) changed(before, now *fairleadv1.Run) {
	v.plainView.changed(before, now)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.run = now
}

// idle implements view: the rows say already what is waited for.
func (v *liveView) idle(*fairleadv1.Run) {}

// flush implements view.
func (v *liveView) flush() {
	v.plainView.close() // the rows begin on a line of their own
	content := bytes.Clone(v.buf.Bytes())
	v.buf.Reset()
	v.draw(content)
}

// close removes the rows.
func (v *liveView) close() {
	close(v.stop)
	v.ended.Wait()
	v.mu.Lock()
	v.over = true
	v.mu.Unlock()
	v.flush()
}

// draw writes content above the rows and the rows anew, in one piece: a terminal that
// shows half of it would flicker.
func (v *liveView) draw(content []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out bytes.Buffer
	if v.drawn > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", v.drawn)
	}
	out.Write(content)
	v.drawn = 0
	if !v.over {
		for _, row := range v.rows() {
			out.WriteString(row + "\n")
			v.drawn++
		}
	}
	if out.Len() > 0 {
		_, _ = v.to.Write(out.Bytes())
	}
}

// rows says what every unfinished job does now, each in one row of the terminal.
func (v *liveView) rows() []string {
	var out []string
	more := 0
	for _, job := range v.run.GetJobs() {
		if job.GetOutcome() != "" {
			continue
		}
		if len(out) == liveRowsMax {
			more++
			continue
		}
		row := v.out.paint(strong, clean(job.GetKey())) + "  " + v.doing(job)
		if width := v.width(); width > 0 {
			row = lipgloss.NewStyle().MaxWidth(width).Render(row)
		}
		out = append(out, row)
	}
	if more > 0 {
		out = append(out, v.out.paint(faint, fmt.Sprintf("and %d more", more)))
	}
	return out
}

func (v *liveView) doing(job *fairleadv1.Job) string {
	if n := len(job.GetAttempts()); n > 0 && job.GetState() == "active" {
		attempt := job.GetAttempts()[n-1]
		state := attempt.GetObserved().GetState()
		if attempt.GetUncertain() {
			return v.out.word("uncertain") + "  " + clean(attempt.GetNextStep())
		}
		text := v.out.word(dash(state))
		if attempt.GetRequested().GetDesired() == "cancel" {
			text += "  " + v.out.paint(warn, "cancellation requested")
		}
		for _, step := range attempt.GetSteps() {
			if step.GetFinished() == "" && step.GetStarted() != "" {
				text += fmt.Sprintf("  %d/%d %s", step.GetIndex()+1, len(job.GetSteps()), clean(step.GetName()))
			}
		}
		return text + "  " + v.out.paint(faint, span(attempt.GetStarted(), "", v.now()))
	}
	return v.out.word(job.GetState()) + "  " + v.out.paint(faint, clean(job.GetReason()))
}
