package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// lintLine is a diagnostic as lint --json prints it, one a line.
type lintLine struct {
	File      string `json:"file"`
	Line      int    `json:"line"` // 0: the file as a whole
	Column    int    `json:"column"`
	EndLine   int    `json:"end_line,omitempty"`
	EndColumn int    `json:"end_column,omitempty"` // just after the place
	Code      string `json:"code"`
	Severity  string `json:"severity"`
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty"`
}

func printLintLines(w io.Writer, files []lintFile) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, file := range files {
		for _, d := range file.found {
			if err := enc.Encode(lintLine{File: d.Path, Line: d.Pos.Line, Column: d.Pos.Column, EndLine: d.End.Line,
				EndColumn: d.End.Column, Code: string(d.Code), Severity: string(d.Severity), Message: d.Message,
				Hint: d.Hint}); err != nil {
				return err
			}
		}
	}
	return nil
}

// printAnnotations prints workflow commands, which a CI system that reads a step's output
// shows beside the lines of a change.
func printAnnotations(w io.Writer, files []lintFile) error {
	for _, file := range files {
		for _, d := range file.found {
			command := "notice"
			if d.Severity != workflow.Info {
				command = string(d.Severity)
			}
			text := d.Message
			if d.Hint != "" {
				text += "\n" + d.Hint
			}
			place := ""
			if d.Pos.Line > 0 {
				place = fmt.Sprintf(",line=%d,col=%d", d.Pos.Line, d.Pos.Column)
			}
			if d.End.Line > 0 {
				place += fmt.Sprintf(",endLine=%d,endColumn=%d", d.End.Line, d.End.Column)
			}
			if _, err := fmt.Fprintf(w, "::%s file=%s%s,title=%s::%s\n", command, property(d.Path), place, d.Code,
				escaped(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// escaped is text as the data of a workflow command.
func escaped(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// property is text as a property of a workflow command.
func property(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escaped(text))
}

// The types below are the part of SARIF 2.1.0 that is written.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID            string       `json:"id"`
		Short         sarifText    `json:"shortDescription"`
		Configuration sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
		EndLine     int `json:"endLine,omitempty"`
		EndColumn   int `json:"endColumn,omitempty"`
	}
)

func printSARIF(w io.Writer, files []lintFile, version string) error {
	driver := sarifDriver{Name: "fairlead lint", Version: version}
	for _, entry := range workflow.Codes() {
		driver.Rules = append(driver.Rules, sarifRule{string(entry.Code), sarifText{entry.Means},
			sarifDefault{sarifLevel(entry.Severity)}})
	}
	run := sarifRun{Tool: sarifTool{driver}, ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	for _, file := range files {
		for _, d := range file.found {
			text := d.Message
			if d.Hint != "" {
				text += " (" + d.Hint + ")"
			}
			at := sarifPhysical{Artifact: sarifArtifact{(&url.URL{Path: d.Path}).String()}}
			if d.Pos.Line > 0 {
				at.Region = &sarifRegion{d.Pos.Line, d.Pos.Column, d.End.Line, d.End.Column}
			}
			run.Results = append(run.Results, sarifResult{string(d.Code), sarifLevel(d.Severity), sarifText{text},
				[]sarifLocation{{at}}})
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

func sarifLevel(s workflow.Severity) string {
	if s == workflow.Info {
		return "note"
	}
	return string(s)
}
