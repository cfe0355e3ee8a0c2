// Package oracle compares the expression language with what others say about it: GitHub's
// own published implementation, run in a process beside the test, and files of cases.
package oracle
