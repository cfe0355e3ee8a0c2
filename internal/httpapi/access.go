package httpapi

import (
	"context"

	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Action is what a principal wants to do, as a role will name it.
type Action string

// Actions.
const (
	ActionPublic         Action = "public" // health, sign-in, style sheets: nothing of a tenant
	ActionRunCreate      Action = "run.create"
	ActionRunRead        Action = "run.read"
	ActionRunCancel      Action = "run.cancel"
	ActionRunRerun       Action = "run.rerun"
	ActionAttemptSettle  Action = "attempt.settle"
	ActionLogRead        Action = "log.read"
	ActionRepositoryAdd  Action = "repository.add"
	ActionRepositoryRead Action = "repository.read"
	ActionRepositorySet  Action = "repository.set"
	ActionRepositoryPush Action = "repository.notify"
	// ActionRepositoryAdmin decides which of a repository's workflows may start at all.
	ActionRepositoryAdmin Action = "repository.administer"
	ActionPoolRead        Action = "pool.read"
	ActionRunnerInvite    Action = "runner.invite"
	ActionRunnerRemove    Action = "runner.remove"
	ActionRunnerRegister  Action = "runner.register"
	ActionRunnerExchange  Action = "runner.exchange"
	ActionWorkflowLint    Action = "workflow.lint"
	ActionServerRead      Action = "server.read"
	ActionSignInInvite    Action = "session.invite"
	ActionMetricsRead     Action = "metrics.read"
	ActionSourceFetch     Action = "source.fetch"
	ActionSourcePush      Action = "source.push"
	ActionPageRead        Action = "page.read"
)

// Resource is what an action is about. ID is empty before the request's message was read,
// and for actions on a whole kind.
type Resource struct {
	Kind string // "run", "job", "attempt", "repository", "pool", "runner", "server", ""
	ID   string
}

// Access decides whether principal may do action to resource: nil allows. It is asked by
// every route, and asked a second time once the resource's id is known.
type Access func(ctx context.Context, p credential.Principal, a Action, r Resource) *domain.Rejection

// Allow is the Access of the embedded default, before there are roles: an administrator
// may do everything, an attempt may fetch its source, a runner may speak its protocol.
func Allow(_ context.Context, p credential.Principal, a Action, _ Resource) *domain.Rejection {
	switch {
	case a == ActionPublic, p.Kind == credential.KindAdmin:
		return nil
	case a == ActionRunnerRegister && p.Kind == credential.KindAnonymous:
		return nil // the registration token in the message is the credential
	case a == ActionRunnerExchange && p.Kind == credential.KindRunner:
		return nil
	case a == ActionSourceFetch && p.Kind == credential.KindAttempt:
		return nil // exactly which commit is decided where the attempt is known
	case p.Kind == credential.KindAnonymous:
		return errUnauthenticated()
	}
	return errHidden()
}

// errHidden is the one answer to "missing" and to "forbidden".
func errHidden() *domain.Rejection {
	return domain.Reject(domain.CodeNotFound, "There is no such thing, or you may not know that there is.")
}

func errUnauthenticated() *domain.Rejection {
	return domain.Reject(domain.CodeUnauthenticated,
		"This needs a credential: send Authorization: Bearer and a token, or sign in.")
}

// operation says what a procedure does, for the authorisation point.
type operation struct {
	action Action
	kind   string
	field  string // of the request message that holds the resource's id
}

// seconds are the fields of requests that name another resource of the same kind, which is asked
// for in the same way.
var seconds = map[string]string{
	fairleadv1connect.RunServiceDiffRunsProcedure: "other",
}

// operations must name every procedure: one that is not here is refused, and a test fails.
var operations = map[string]operation{
	fairleadv1connect.RunServiceCreateRunProcedure:         {ActionRunCreate, "repository", "repository"},
	fairleadv1connect.RunServiceListRunsProcedure:          {ActionRunRead, "run", ""},
	fairleadv1connect.RunServiceGetRunProcedure:            {ActionRunRead, "run", "run"},
	fairleadv1connect.RunServiceWatchRunProcedure:          {ActionRunRead, "run", "run"},
	fairleadv1connect.RunServiceCancelRunProcedure:         {ActionRunCancel, "run", "run"},
	fairleadv1connect.RunServiceRerunRunProcedure:          {ActionRunRerun, "run", "run"},
	fairleadv1connect.RunServiceRetryJobProcedure:          {ActionRunRerun, "job", "job"},
	fairleadv1connect.RunServiceSettleAttemptProcedure:     {ActionAttemptSettle, "attempt", "attempt"},
	fairleadv1connect.RunServiceWhyRunProcedure:            {ActionRunRead, "run", "run"},
	fairleadv1connect.RunServiceListComponentRunsProcedure: {ActionRunRead, "run", ""},
	fairleadv1connect.RunServiceReplayRunProcedure:         {ActionRunRead, "run", "run"},
	fairleadv1connect.RunServiceDiffRunsProcedure:          {ActionRunRead, "run", "run"},

	fairleadv1connect.LogServiceReadLinesProcedure: {ActionLogRead, "attempt", "attempt"},
	fairleadv1connect.LogServiceSearchLogProcedure: {ActionLogRead, "attempt", "attempt"},
	fairleadv1connect.LogServiceFollowLogProcedure: {ActionLogRead, "attempt", "attempt"},

	fairleadv1connect.RepositoryServiceAddRepositoryProcedure:    {ActionRepositoryAdd, "repository", "name"},
	fairleadv1connect.RepositoryServiceListRepositoriesProcedure: {ActionRepositoryRead, "repository", ""},
	fairleadv1connect.RepositoryServiceGetRepositoryProcedure: {ActionRepositoryRead, "repository",
		"repository"},
	fairleadv1connect.RepositoryServiceListWorkflowsProcedure: {ActionRepositoryRead, "repository",
		"repository"},
	fairleadv1connect.RepositoryServiceListWithdrawalsProcedure: {ActionRepositoryRead, "repository",
		"repository"},
	fairleadv1connect.RepositoryServiceWithdrawProcedure: {ActionRepositoryAdmin, "repository",
		"repository"},
	fairleadv1connect.RepositoryServiceSetComponentPolicyProcedure: {ActionRepositorySet, "repository",
		"repository"},
	fairleadv1connect.RepositoryServiceResolveComponentsProcedure: {ActionRepositoryRead, "repository",
		"repository"},
	fairleadv1connect.RepositoryServiceNotifyPushProcedure: {ActionRepositoryPush, "repository",
		"repository"},

	fairleadv1connect.PoolServiceListPoolsProcedure:               {ActionPoolRead, "pool", ""},
	fairleadv1connect.PoolServiceListRunnersProcedure:             {ActionPoolRead, "runner", ""},
	fairleadv1connect.PoolServiceCreateRegistrationTokenProcedure: {ActionRunnerInvite, "pool", "pool"},
	fairleadv1connect.PoolServiceRemoveRunnerProcedure:            {ActionRunnerRemove, "runner", "runner"},

	fairleadv1connect.WorkflowServiceLintProcedure: {ActionWorkflowLint, "", ""},

	fairleadv1connect.SignInServiceCreateSignInLinkProcedure: {ActionSignInInvite, "", ""},

	fairleadv1connect.ServerServiceGetServerProcedure: {ActionServerRead, "server", ""},

	runnerv1connect.RunnerServiceRegisterProcedure: {ActionRunnerRegister, "runner", ""},
	runnerv1connect.RunnerServiceExchangeProcedure: {ActionRunnerExchange, "runner", "session"},
}

// authorize is the one authorisation point.
func (s *Server) authorize(ctx context.Context, a Action, r Resource) error {
	c := callOf(ctx)
	if c.stale && a != ActionPublic {
		return domain.Reject(domain.CodeUnauthenticated,
			"The credential that came with the request is not valid, or no longer.")
	}
	if rejection := s.access(ctx, c.principal, a, r); rejection != nil {
		return rejection
	}
	return nil
}
