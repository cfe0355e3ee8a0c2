package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/capture"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// latest asks for the newest run instead of naming one.
const latest = "latest"

// subject is what a RUN argument named: always a run, and the job or the attempt when the
// argument was the identifier of one.
type subject struct {
	run     domain.RunID
	job     domain.JobID
	attempt domain.AttemptID
}

// subject reads a RUN argument: the identifier of a run, a job or an attempt, the address
// of a run's page, or the word latest.
func (a *app) subject(ctx context.Context, c *client.Client, text string) (subject, error) {
	if text == latest {
		return a.latest(ctx, c)
	}
	if _, path, ok := strings.Cut(text, "/runs/"); ok {
		text, _, _ = strings.Cut(path, "/")
	}
	if domain.ValidID(domain.PrefixRun, text) {
		return subject{run: domain.RunID(text)}, nil
	}
	if run, _, ok := domain.JobID(text).Split(); ok {
		return subject{run: run, job: domain.JobID(text)}, nil
	}
	attempt := domain.AttemptID(text)
	if run := attempt.Run(); run != "" {
		return subject{run: run, job: attempt.Job(), attempt: attempt}, nil
	}
	return subject{}, usagef("%q names no run: give run_…, job_…, att_…, the address of a run's page, or latest",
		text)
}

// latest is the newest run of the repository that the caller stands in, and outside of
// one the newest of all. Inside a repository another one's run is never meant.
func (a *app) latest(ctx context.Context, c *client.Client) (subject, error) {
	request, where := &fairleadv1.ListRunsRequest{Limit: 1}, "yet"
	name, err := standing(ctx)
	switch {
	case err == nil:
		request.Repository, where = name, "of "+name+" yet"
	case !errors.Is(err, capture.ErrNoRepository):
		return subject{}, err
	}
	response, err := c.Runs.ListRuns(ctx, request)
	if err != nil {
		return subject{}, err
	}
	if len(response.GetRuns()) == 0 {
		return subject{}, &refusal{code: codeNoRun, text: "There is no run " + where + "."}
	}
	return subject{run: domain.RunID(response.GetRuns()[0].GetRun())}, nil
}

// standing is the server's name for the repository of the working folder.
func standing(ctx context.Context) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working folder: %w", err)
	}
	tree, err := capture.Open(ctx, folder)
	if err != nil {
		return "", err
	}
	return tree.Name(), nil
}

// read fetches a run.
func read(ctx context.Context, c *client.Client, id domain.RunID, timeline bool) (*fairleadv1.Run, error) {
	response, err := c.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: string(id), Timeline: timeline})
	if err != nil {
		return nil, err
	}
	return response.GetRun(), nil
}

// pickJob finds a job of the run by key, name or identifier. Without a word it takes the
// only job.
func pickJob(run *fairleadv1.Run, word string) (*fairleadv1.Job, error) {
	var keys []string
	var named []*fairleadv1.Job
	for _, job := range run.GetJobs() {
		keys = append(keys, job.GetKey())
		if word == job.GetKey() || word == job.GetId() {
			return job, nil
		}
		if word == job.GetName() {
			named = append(named, job)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		return nil, usagef("%d jobs of %s are called %q: name one by its key: %s", len(named), run.GetRun(), word,
			strings.Join(keys, ", "))
	case word != "":
		return nil, &refusal{code: string(domain.CodeNotFound), choices: keys,
			text: fmt.Sprintf("The run has no job %q; it has:", word)}
	case len(run.GetJobs()) == 1:
		return run.GetJobs()[0], nil
	case len(run.GetJobs()) == 0:
		return nil, &refusal{code: string(domain.CodeNotFound), text: "The run has no job: " + run.GetReason()}
	}
	return nil, usagef("%s has several jobs: name one of %s", run.GetRun(), strings.Join(keys, ", "))
}

// pickAttempt finds an attempt of the job; number 0 asks for the newest.
func pickAttempt(job *fairleadv1.Job, number int) (*fairleadv1.Attempt, error) {
	attempts := job.GetAttempts()
	if len(attempts) == 0 && len(job.GetLegs()) > 0 {
		return nil, &refusal{code: codeNoAttempt, choices: job.GetLegs(),
			text: fmt.Sprintf("The job %s has a matrix, and its legs have attempts. Name one of them:", job.GetKey())}
	}
	if len(attempts) == 0 {
		return nil, &refusal{code: codeNoAttempt,
			text: fmt.Sprintf("The job %s has no attempt yet: %s", job.GetKey(), job.GetReason())}
	}
	if number == 0 {
		return attempts[len(attempts)-1], nil
	}
	at := slices.IndexFunc(attempts, func(attempt *fairleadv1.Attempt) bool {
		return int(attempt.GetNumber()) == number
	})
	if at < 0 {
		var numbers []string
		for _, attempt := range attempts {
			numbers = append(numbers, strconv.Itoa(int(attempt.GetNumber())))
		}
		return nil, &refusal{code: string(domain.CodeAttemptNotFound), choices: numbers,
			text: fmt.Sprintf("The job %s has no attempt %d; it has:", job.GetKey(), number)}
	}
	return attempts[at], nil
}
