package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// forever is how keeping without an end is spelled.
const forever = "forever"

// keepDaysMax is a hundred years: who wants more means for ever.
const keepDaysMax = 36_500

// keepDays reads how long something is kept: whole days, as 90d, or forever, which is 0.
func keepDays(text string) (int, error) {
	if text == forever {
		return 0, nil
	}
	number, ok := strings.CutSuffix(text, "d")
	days, err := strconv.Atoi(number)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is no number of days: say 90d, or %s", text, forever)
	}
	if days < 1 || days > keepDaysMax {
		return 0, fmt.Errorf("%s is not possible: from 1d to %dd, or %s", text, keepDaysMax, forever)
	}
	return days, nil
}

func keepText(days int) string {
	if days == 0 {
		return forever
	}
	return strconv.Itoa(days) + "d"
}

// keepValue is a flag with a number of days.
type keepValue struct{ days *int }

// Set implements pflag.Value.
func (v *keepValue) Set(text string) error {
	days, err := keepDays(text)
	if err == nil {
		*v.days = days
	}
	return err
}

// String implements pflag.Value; it says nothing of the default, which the usage tells.
func (v *keepValue) String() string {
	if v.days == nil || *v.days == 0 {
		return ""
	}
	return keepText(*v.days)
}

// Type implements pflag.Value.
func (*keepValue) Type() string { return "days" }

// keepOfValue is a flag with a number of days for each class.
type keepOfValue struct{ of *map[string]int }

// Set implements pflag.Value: one class, or several with commas between them.
func (v *keepOfValue) Set(text string) error {
	all := maps.Clone(*v.of)
	if all == nil {
		all = map[string]int{}
	}
	for one := range strings.SplitSeq(text, ",") {
		class, text, ok := strings.Cut(one, "=")
		switch {
		case !ok:
			return errors.New("say a class and its days, as batch=14d")
		case domain.Class(class).Rank() == 0:
			return fmt.Errorf("there is no class %q: rollback, protected, interactive, batch", class)
		}
		days, err := keepDays(text)
		if err != nil {
			return err
		}
		if _, twice := all[class]; twice {
			return fmt.Errorf("class %s is given twice", class)
		}
		all[class] = days
	}
	*v.of = all
	return nil
}

// String implements pflag.Value.
func (v *keepOfValue) String() string {
	if v.of == nil {
		return ""
	}
	var all []string
	for class, days := range *v.of {
		all = append(all, class+"="+keepText(days))
	}
	slices.SortFunc(all, cmp.Compare[string])
	return strings.Join(all, ",")
}

// Type implements pflag.Value.
func (*keepOfValue) Type() string { return "class=days" }
