// Package oracle compares the expression language with what others say about it: GitHub's
// own published implementation, asked in a process beside the test, and files of cases.
//
// It is deliberately not part of the product: nothing of those packages is linked, shipped
// or copied. It says nothing about what the language should be either; where we differ on
// purpose, a rule in rule.go says so, the same rule corrects the oracle in
// test/oracle/answer.mjs, and after that correction the two must agree.
//
// Invariants: a difference that no rule explains is a failure, and so is a rule that
// explains nothing; the same seed asks the same questions.
//
// Read next: rule.go, generate.go, test/oracle/answer.mjs
package oracle
