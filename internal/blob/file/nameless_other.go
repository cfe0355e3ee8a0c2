//go:build !linux

package file

import "os"

func nameless(int) (*os.File, error)           { return nil, errNamed }
func linkNameless(*os.File, int, string) error { return errNamed }
func canNameless(*os.File) bool                { return false }
