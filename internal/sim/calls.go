package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/scm"
)

// callsText writes jobs that call workflows: beside the others, with a matrix, one after the other
// with its outputs. They have a stream of their own, like matrices.
func callsText(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(3) > 0 {
		return ""
	}
	for i := range 1 + r.IntN(2) {
		fmt.Fprintf(&b, "  k%d:\n", i)
		x := pick(r, "plain", "${{ github.ref }}", "${{ github.event.after }}", "${{ github.event.nothing || 'late' }}")
		if i > 0 && r.IntN(2) == 0 {
			b.WriteString("    needs: k0\n")
			x = "${{ needs.k0.outputs.text }}"
		}
		if condition := pick(r, "", "", "", "always()", "failure()", "github.ref == 'refs/heads/main'"); condition != "" {
			fmt.Fprintf(&b, "    if: ${{ %s }}\n", condition)
		}
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "    strategy:\n      fail-fast: %t\n", r.IntN(2) == 0)
			if r.IntN(2) == 0 {
				b.WriteString("      max-parallel: 1\n")
			}
			b.WriteString("      matrix: {v: [1, 2]}\n")
			x += "-${{ matrix.v }}"
		}
		fmt.Fprintf(&b, "    uses: ./%s\n", pick(r, outerPath, outerPath, innerPath))
		fmt.Fprintf(&b, "    with: {x: \"%s\"}\n", x)
	}
	return b.String()
}

// The workflows that are called.
const (
	outerPath = ".fairlead/workflows/outer.yml"
	innerPath = ".fairlead/workflows/inner.yml"
)

const outerText = `
on:
  workflow_call:
    inputs: {x: {type: string}}
    outputs: {text: {value: "${{ jobs.in.outputs.text || jobs.first.outputs.text }}"}}
jobs:
  first:
    runs-on: linux
    timeout-minutes: 1
    outputs: {text: "${{ inputs.x }}"}
    steps: [{run: step-0}]
  in:
    needs: first
    uses: ./.fairlead/workflows/inner.yml
    with: {x: "${{ needs.first.outputs.text }}"}
  last:
    needs: in
    if: failure() || inputs.x != 'plain'
    runs-on: linux
    timeout-minutes: 1
    effects: external
    steps: [{run: step-0}]
`

const innerText = `
on:
  workflow_call:
    inputs: {x: {type: string}}
    outputs: {text: {value: "${{ jobs.legs.outputs.text }}"}}
jobs:
  legs:
    runs-on: linux
    timeout-minutes: 1
    retry: {max: 1, backoff: 1, on: [runner_lost, platform_error]}
    strategy: {max-parallel: 1, matrix: {v: [1, 2]}}
    outputs: {text: "${{ inputs.x }}"}
    steps: [{run: step-0}]
  beside:
    runs-on: linux
    timeout-minutes: 1
    continue-on-error: true
    steps: [{run: step-0}]
`

func calledFiles(commit string) []scm.File {
	return []scm.File{{Path: innerPath, Blob: commit + "-inner", Bytes: []byte(innerText)},
		{Path: outerPath, Blob: commit + "-outer", Bytes: []byte(outerText)}}
}
