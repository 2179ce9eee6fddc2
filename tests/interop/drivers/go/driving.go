// Loop of the drivers in Go: a line on stdin is an action, its argument, a topic and a group, with tabs between; the
// answer is a line of JSON. Argument: bootstrap servers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	count = 10
	wait  = 20 * time.Second
)

type answer map[string]any

type action func(ctx context.Context, topic, argument string) (answer, error)

func key(number int) []byte             { return fmt.Appendf(nil, "key-%d", number) }
func value(number int) []byte           { return []byte(strings.Repeat(fmt.Sprintf("value-%d;", number), 20)) }
func stamp(number int) time.Time        { return time.UnixMilli(1_700_000_000_000 + int64(number)*1000) }
func letters(size int) []byte           { return []byte(strings.Repeat("m", size)) }
func nothing(err error) (answer, error) { return answer{}, err }

func text(bytes []byte) any {
	if bytes == nil {
		return nil
	}
	return string(bytes)
}

func row(offset int64, key, value []byte) []any {
	return []any{offset, text(key), text(value)}
}

func drive(actions map[string]action) {
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		argument := words[1]
		if argument == "" {
			argument = words[3]
		}
		known, ok := actions[words[0]]
		if !ok {
			answers.Encode(answer{"unknown": words[0]})
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		found, err := known(ctx, words[2], argument)
		cancel()
		if err != nil {
			found = answer{"error": err.Error()}
		}
		answers.Encode(found)
	}
}
