// Renders a Helm chart's templates: `go run . CHART < VALUES`, values and release as JSON.
//
// It knows only the functions that the chart uses, so a chart that uses others fails here.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/template"
)

func main() {
	if err := render(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(chart string) error {
	var data map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&data); err != nil {
		return err
	}
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(functions(root))
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := root.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	rendered := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out strings.Builder
		if err := root.ExecuteTemplate(&out, name, data); err != nil {
			return err
		}
		rendered[name] = out.String()
	}
	return json.NewEncoder(os.Stdout).Encode(rendered)
}

// isEmpty says what Helm takes for empty: nothing, 0, false, no text, no items.
func isEmpty(value any) bool {
	if value == nil {
		return true
	}
	of := reflect.ValueOf(value)
	switch of.Kind() {
	case reflect.Map, reflect.Slice:
		return of.Len() == 0
	}
	return of.IsZero()
}

func functions(root *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"nindent": func(spaces int, text string) string {
			pad := "\n" + strings.Repeat(" ", spaces)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
		"quote": func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"default": func(usual, given any) any {
			if isEmpty(given) {
				return usual
			}
			return given
		},
		"required": func(why string, given any) (any, error) {
			if isEmpty(given) {
				return nil, errors.New(why)
			}
			return given, nil
		},
		"fail": func(why string) (string, error) { return "", errors.New(why) },
		"trunc": func(length int, text string) string {
			if len(text) < length {
				return text
			}
			return text[:length]
		},
		"trimSuffix": func(suffix, text string) string { return strings.TrimSuffix(text, suffix) },
		"int":        func(value any) int { number, _ := value.(float64); return int(number) },
		"toJson": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"dict": func(pairs ...any) map[string]any {
			made := map[string]any{}
			for n := 0; n+1 < len(pairs); n += 2 {
				made[pairs[n].(string)] = pairs[n+1]
			}
			return made
		},
	}
}
