// Produces values to topics with sarama and reads them as a member of a group, over each way into a broker.
//
// Arguments and lines are as those of secured_franz.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
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
	topic, bootstrap := words[0], words[1:2]
	config, err := newConfig(words)
	if err != nil {
		return nil, err
	}
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for number := 0; number < count; number++ {
		value := sarama.StringEncoder(fmt.Sprintf("value %d", number))
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value}); err != nil {
			return nil, err
		}
	}
	group, err := sarama.NewConsumerGroup(bootstrap, topic, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	reader := &reader{count: count, done: cancel}
	err = group.Consume(ctx, []string{topic}, reader)
	return reader.values, err
}

type reader struct {
	count  int
	done   func()
	values []string
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		r.values = append(r.values, string(message.Value))
		session.MarkMessage(message, "")
		if len(r.values) == r.count {
			r.done()
		}
	}
	return nil
}

func newConfig(words []string) (*sarama.Config, error) {
	mechanism, user, secret := words[2], words[3], words[4]
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	config.Net.SASL.Enable = mechanism != ""
	config.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = user, secret
	switch mechanism {
	case "SCRAM-SHA-256":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{hash: sha256.New} }
	case "SCRAM-SHA-512":
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{hash: sha512.New} }
	case "OAUTHBEARER":
		config.Net.SASL.TokenProvider = token(secret)
	}
	if words[5] == "" {
		return config, nil
	}
	encrypted, err := tlsConfig(words[5], words[6])
	config.Net.TLS.Enable, config.Net.TLS.Config = true, encrypted
	return config, err
}

type token string

func (t token) Token() (*sarama.AccessToken, error) { return &sarama.AccessToken{Token: string(t)}, nil }

// What sarama leaves to its users.
type login struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (l *login) Begin(user, password, authzID string) error {
	client, err := l.hash.NewClient(user, password, authzID)
	if err == nil {
		l.conversation = client.NewConversation()
	}
	return err
}

func (l *login) Step(challenge string) (string, error) { return l.conversation.Step(challenge) }
func (l *login) Done() bool                            { return l.conversation.Done() }

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
