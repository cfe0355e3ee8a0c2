package codec

import (
	"fmt"
	"strings"
)

// words are the names and values that one or two bytes stand for: field names, types,
// outcomes, reasons. Those that a job has in every run come first. The list only grows, at its
// end, and with a format: wordsSince says how long it was.
var words = strings.Fields(`
at job attempt epoch outcome reason code success index effect none report steps conclusion started finished
log_end ProgressReported AttemptConcluded JobConcluded JobReady LeaseGranted LogSealed RunRequested RunConcluded
JobHeld runner runner_name runner_version session pool alias slot until abandon_by deadline observed running
heard_at succeeded queue_deadline log object offset length digest bytes lines round jobs_done actor kind id via
request run tenant repository repository_name number trigger event key received_at source commit ref title
workflow_path workflow_name snapshot plan inputs tier class skeleton name needs runs_on timeout_seconds
queue_timeout_seconds retry max on backoff_seconds limits run_ rnr_ ses_ rep_ tnt_default default trusted
protected interactive push workflow_dispatch ubuntu-latest runner_lost platform_error message exit_code failure
step_failed jobs outputs value git token user admin admin_token EvaluationAsked EvaluationRecorded LeaseDeclined
LeaseLapsed LeaseRegained AttemptHeld AttemptStopRequested CancelRequested RoundOpened ReconciliationRecorded
ReportRefused RefusalsCounted ReportConflicted expression input_digest result error last_seen settle_at
grace_until renew_until mode note then what count committed delivery if effectful soft_fail invalid truncated
gaps step version created_at created_by last_at desired cancel rounds state cause since decider ready_at
held_until evaluation attempts answered leased_at stop stop_at observed_at uncertain held concluded_at
concluded_by declined reconciliations conflicts refused refused_kept opened_at outcomes cancel_grace_seconds
timeout_grace_seconds evaluation_seconds backoff_max_seconds waiting ready active concluded timed_out cancelled
lost soft_failure skipped superseded user_code timeout policy_denied leased preparing finishing exited
unreachable unknown confirmed reconciled untrusted rollback batch needs_unfinished evaluating_condition
retry_backoff waiting_for_runner executing cancel_grace timeout_grace uncertain_until_abandoned uncertain_held
log_unsealed condition_false dependency_unsuccessful cancel_requested failed queue_timeout evaluation_failed
evaluation_timeout lease_declined effectful_not_retried settled definition_invalid jobs_failed PoolCreated
RegistrationTokenIssued RegistrationTokensExpired RunnerRegistered RunnerRemoved SessionRotated config labels
aliases tiers isolation pattern os issued expires by tokens runners capacity arch resume registered created
RepositoryRegistered RefsObserved RepositoryForgotten url default_branch protected_refs poll baseline refs
before after removed repeat forgotten schedule first policy tnt_ linux amd64 arm64 process oci refs/heads/main
main Run bash conflict moved MatrixAsked MatrixExpanded legs leg group of matrix fail_fast max_parallel later
added kept size expanded expanding_matrix matrix_unexpanded legs_unfinished fail_fast_grace matrix_invalid
legs_failed legs_done
`)

// wordsSince is how many words the readers of a format know.
var wordsSince = map[uint32]int{FormatPacked: 280, 4: 301}

func wordsOf(format uint32) int {
	for ; format >= FormatPacked; format-- {
		if n, ok := wordsSince[format]; ok {
			return n
		}
	}
	return 0
}

// wordPlaces finds a word.
var wordPlaces = func() map[string]int {
	places := make(map[string]int, len(words))
	for i, w := range words {
		places[w] = i
	}
	return places
}()

func wordOf(s string) int {
	if place, ok := wordPlaces[s]; ok {
		return place
	}
	return -1
}

func wordAt(place uint64) (string, error) {
	if place >= uint64(len(words)) {
		return "", fmt.Errorf("word %d of %d: a newer release wrote it", place, len(words))
	}
	return words[place], nil
}
