// Produces values to topics with franz-go and reads them as a member of a group, over each way into a broker.
//
// Argument: how many values. A line on the input is a way in: topic, bootstrap server, SASL mechanism, user, secret,
// file of the authority, file of the client's key and certificate, separated by tabs, each empty if there is none. All
// are tried at once. A line for each value that was read: the topic, "read" and the value, separated by tabs; or the
// topic, "error" and what it is.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	var all sync.WaitGroup
	var printing sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		all.Add(1)
		go func() {
			defer all.Done()
			values, err := roundTrip(words, count)
			printing.Lock()
			defer printing.Unlock()
			for _, value := range values {
				fmt.Printf("%s\tread\t%s\n", words[0], value)
			}
			if err != nil {
				fmt.Printf("%s\terror\t%v\n", words[0], err)
			}
		}()
	}
	all.Wait()
}

func roundTrip(words []string, count int) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	topic := words[0]
	options, err := options(words)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options,
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumerGroup(topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for number := 0; number < count; number++ {
		record := &kgo.Record{Topic: topic, Value: []byte(fmt.Sprintf("value %d", number))}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return nil, err
		}
	}
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, client.CommitUncommittedOffsets(ctx)
}

func options(words []string) ([]kgo.Opt, error) {
	mechanism, user, secret := words[2], words[3], words[4]
	options := []kgo.Opt{kgo.SeedBrokers(words[1])}
	if mechanism != "" {
		scrams := scram.Auth{User: user, Pass: secret}
		options = append(options, kgo.SASL(map[string]sasl.Mechanism{
			"PLAIN":         plain.Auth{User: user, Pass: secret}.AsMechanism(),
			"SCRAM-SHA-256": scrams.AsSha256Mechanism(),
			"SCRAM-SHA-512": scrams.AsSha512Mechanism(),
			"OAUTHBEARER":   oauth.Auth{Token: secret}.AsMechanism(),
		}[mechanism]))
	}
	if words[5] == "" {
		return options, nil
	}
	encrypted, err := tlsConfig(words[5], words[6])
	return append(options, kgo.DialTLSConfig(encrypted)), err
}

func tlsConfig(authority, certificate string) (*tls.Config, error) {
	trusted, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(trusted)
	if certificate != "" {
		own, err := tls.LoadX509KeyPair(certificate, certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
