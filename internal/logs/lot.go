package logs

import (
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A sealed log lies in a lot: the sealed logs of one tenant, one class and one UTC day, by the
// clock of whoever sealed it. A lot is what retention removes, and its name is the beginning
// of the keys of all that is in it.
type lot struct {
	tenant domain.TenantID
	class  string
	day    string // yyyymmdd
}

const (
	lotsFolder = "sealed-logs"
	dayForm    = "20060102"
)

// classless is where logs lie whose class is not known here.
const classless = "none"

// classes are the names that a lot's class can have.
var classes = []string{string(domain.ClassRollback), string(domain.ClassProtected), string(domain.ClassInteractive),
	string(domain.ClassBatch), classless}

func classOf(class domain.Class) string {
	if class.Rank() == 0 {
		return classless
	}
	return string(class)
}

func lotAt(tenant domain.TenantID, class domain.Class, now time.Time) lot {
	return lot{tenant, classOf(class), now.UTC().Format(dayForm)}
}

// lotsOf begins the keys of all lots of a tenant and a class.
func lotsOf(tenant domain.TenantID, class string) string {
	return string(tenant) + "/" + lotsFolder + "/" + class + "/"
}

func (l lot) prefix() string { return lotsOf(l.tenant, l.class) + l.day + "/" }

// bundleKey names a bundle in the lot.
func (l lot) bundleKey(digest domain.Digest) string {
	sum := digest.Hex()
	return l.prefix() + sum[:2] + "/" + sum
}

// lotOf is the lot that an object is in; false for every other object, also for one in which
// an earlier release put sealed logs.
func lotOf(key string) (lot, bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 6 || parts[1] != lotsFolder {
		return lot{}, false
	}
	l := lot{domain.TenantID(parts[0]), parts[2], parts[3]}
	_, err := time.Parse(dayForm, l.day)
	return l, err == nil && validTenant(l.tenant)
}

// over reports whether every log of the lot was sealed more than so many days ago.
func (l lot) over(now time.Time, days int) bool {
	day, err := time.Parse(dayForm, l.day)
	return err == nil && !now.Before(day.AddDate(0, 0, 1+days))
}

// Keep says how many days sealed logs are kept; 0 is for ever.
type Keep struct {
	All int
	// Of goes before All.
	Of map[domain.Class]int
}

// Ends reports whether logs of some class are not kept for ever.
func (k Keep) Ends() bool {
	for _, class := range classes {
		if k.days(class) > 0 {
			return true
		}
	}
	return false
}

func (k Keep) days(class string) int {
	if days, ok := k.Of[domain.Class(class)]; ok {
		return days
	}
	return k.All
}
