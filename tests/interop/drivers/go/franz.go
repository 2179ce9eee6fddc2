// Scenarios with franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acknowledgements = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "-1": kgo.AllISRAcks()}

func client(options ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.AllowAutoTopicCreation(),
	}
	return kgo.NewClient(append(common, options...)...)
}

// admin returns an action that an admin client does.
func admin(do func(ctx context.Context, client *kadm.Client, topic, group string) (answer, error)) action {
	return func(ctx context.Context, topic, group string) (answer, error) {
		found, err := client()
		if err != nil {
			return nil, err
		}
		defer found.Close()
		return do(ctx, kadm.NewClient(found), topic, group)
	}
}

func records(topic string) []*kgo.Record {
	var found []*kgo.Record
	for n := range count {
		found = append(found, &kgo.Record{Topic: topic, Key: key(n), Value: value(n)})
	}
	return found
}

func one(topic string, key, value []byte) []*kgo.Record {
	return []*kgo.Record{{Topic: topic, Key: key, Value: value}}
}

func send(ctx context.Context, records []*kgo.Record, options ...kgo.Opt) (answer, error) {
	producer, err := client(append(options, kgo.ProducerLinger(50*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	return nothing(producer.ProduceSync(ctx, records...).FirstErr())
}

// sending returns an action that produces records.
func sending(records func(topic string) []*kgo.Record, options ...kgo.Opt) action {
	return func(ctx context.Context, topic, _ string) (answer, error) {
		return send(ctx, records(topic), options...)
	}
}

func poll(ctx context.Context, consumer *kgo.Client, wanted int) ([]*kgo.Record, error) {
	var found []*kgo.Record
	for len(found) < wanted {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return found, err
		}
		found = append(found, fetches.Records()...)
	}
	return found, nil
}

func read(ctx context.Context, topic string, wanted int, from int64, options ...kgo.Opt) ([]*kgo.Record, error) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}
	consumer, err := client(append(options, kgo.ConsumePartitions(start))...)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	return poll(ctx, consumer, wanted)
}

// reading returns an action that lists something of each record of partition 0.
func reading(name string, wanted int, from int64, of func(*kgo.Record) any, options ...kgo.Opt) action {
	return func(ctx context.Context, topic, _ string) (answer, error) {
		found, err := read(ctx, topic, wanted, from, options...)
		list := []any{}
		for _, each := range found {
			list = append(list, of(each))
		}
		return answer{name: list}, err
	}
}

func rowOf(record *kgo.Record) any { return row(record.Offset, record.Key, record.Value) }

func readHeaders(ctx context.Context, topic, _ string) (answer, error) {
	found, err := read(ctx, topic, 1, 0)
	if err != nil {
		return nil, err
	}
	var headers []any
	for _, each := range found[0].Headers {
		headers = append(headers, []any{each.Key, string(each.Value)})
	}
	return answer{"headers": headers}, nil
}

func member(topic, group string, options ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	return client(append(common, options...)...)
}

// reader returns an action that reads in a group and commits.
func reader(wanted int, options ...kgo.Opt) action {
	return func(ctx context.Context, topic, group string) (answer, error) {
		consumer, err := member(topic, group, options...)
		if err != nil {
			return nil, err
		}
		defer consumer.Close()
		found, err := poll(ctx, consumer, wanted)
		if err != nil {
			return nil, err
		}
		return answer{"count": len(found)}, consumer.CommitRecords(ctx, found...)
	}
}

// optIn is the context with which franz-go uses the consumer protocol (KIP-848).
func optIn() context.Context {
	return context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
}

// sharing returns an action with two members.
func sharing(balancer kgo.GroupBalancer) action {
	return func(ctx context.Context, topic, group string) (answer, error) {
		var members []*kgo.Client
		for range 2 {
			joined, err := member(topic, group, kgo.Balancers(balancer))
			if err != nil {
				return nil, err
			}
			defer joined.Close()
			members = append(members, joined)
		}
		counts := []int{0, 0}
		for (counts[0] != 1 || counts[1] != 1) && ctx.Err() == nil {
			for number, each := range members {
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				each.PollFetches(short)
				cancel()
				_, generation := each.GroupMetadata()
				counts[number] = assigned(ctx, each, group, generation)
			}
		}
		return answer{"assigned": counts}, nil
	}
}

func assigned(ctx context.Context, member *kgo.Client, group string, generation int32) int {
	id, _ := member.GroupMetadata()
	described, err := kadm.NewClient(member).DescribeGroups(ctx, group)
	if err != nil || generation < 0 {
		return 0
	}
	for _, each := range described[group].Members {
		if consumer, ok := each.Assigned.AsConsumer(); ok && each.MemberID == id && len(consumer.Topics) > 0 {
			return len(consumer.Topics[0].Partitions)
		}
	}
	return 0
}

// transacting returns an action with a transaction; `more` is done before the records are sent.
func transacting(end kgo.TransactionEndTry, more func(context.Context, *kgo.Client, string, string) error) action {
	return func(ctx context.Context, topic, group string) (answer, error) {
		producer, err := client(kgo.TransactionalID(group))
		if err != nil {
			return nil, err
		}
		defer producer.Close()
		if err := producer.BeginTransaction(); err != nil {
			return nil, err
		}
		if more != nil {
			if err := more(ctx, producer, topic, group); err != nil {
				return nil, err
			}
		}
		if err := producer.ProduceSync(ctx, records(topic)...).FirstErr(); err != nil {
			return nil, err
		}
		return nothing(producer.EndTransaction(ctx, end))
	}
}

// fence sends with one client, starts another of the same name, and leaves the rest to the first.
func fence(ctx context.Context, first *kgo.Client, topic, group string) error {
	if err := first.ProduceSync(ctx, records(topic)...).FirstErr(); err != nil {
		return err
	}
	_, err := transacting(kgo.TryCommit, nil)(ctx, topic, group)
	return err
}

// sendOffsets adds the group's offset to the transaction as GroupTransactSession does, without a member.
func sendOffsets(ctx context.Context, producer *kgo.Client, topic, group string) error {
	id, epoch, err := producer.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = group, id, epoch, group
	added, err := add.RequestWith(ctx, producer)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return err
	}
	commit := kmsg.NewTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = group, id, epoch, group
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = 5
	topics, err := kadm.NewClient(producer).ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{{
		Topic: topic, TopicID: topics[topic].ID, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{partition},
	}}
	committed, err := commit.RequestWith(ctx, producer)
	if err == nil {
		err = kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)
	}
	return err
}

func createTopic(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
	created, err := client.CreateTopic(ctx, 3, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("500000")}, topic)
	if err == nil {
		err = created.Err
	}
	return nothing(err)
}

func describeConfigs(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
	described, err := client.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, each := range described[0].Configs {
		if each.Key == "retention.ms" {
			return answer{"retention.ms": *each.Value}, nil
		}
	}
	return nil, fmt.Errorf("no retention.ms")
}

func listOffsets(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
	first, err := client.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	last, err := client.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	start, end := first[topic][0].Offset, last[topic][0].Offset
	return answer{"earliest": start, "latest": end, "ends": []int64{start, end}}, nil
}

func describeGroup(ctx context.Context, client *kadm.Client, _, group string) (answer, error) {
	described, err := client.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	found := described[group]
	return answer{"state": strings.ToLower(found.State), "members": len(found.Members)}, found.Err
}

func offsetOf(ctx context.Context, client *kadm.Client, topic, group string) (int64, error) {
	offsets, err := client.FetchOffsets(ctx, group)
	if err != nil {
		return 0, err
	}
	return offsets[topic][0].At, nil
}

func main() {
	stamped := func(topic string) []*kgo.Record {
		found := records(topic)
		for n, each := range found {
			each.Timestamp = stamp(n)
		}
		return found
	}
	withHeaders := func(topic string) []*kgo.Record {
		found := one(topic, []byte("key"), []byte("value"))
		found[0].Headers = []kgo.RecordHeader{
			{Key: "trace", Value: []byte("1")}, {Key: "trace", Value: []byte("2")}, {Key: "empty", Value: []byte{}},
		}
		return found
	}
	oneOf := func(key, value []byte) func(string) []*kgo.Record {
		return func(topic string) []*kgo.Record { return one(topic, key, value) }
	}
	drive(map[string]action{
		"create-topic": admin(createTopic),
		"list-topics": admin(func(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
			topics, err := client.ListTopics(ctx)
			return answer{"listed": topics.Has(topic)}, err
		}),
		"describe-topic": admin(func(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
			topics, err := client.ListTopics(ctx, topic)
			return answer{"partitions": len(topics[topic].Partitions)}, err
		}),
		"describe-cluster": admin(func(ctx context.Context, client *kadm.Client, _, _ string) (answer, error) {
			brokers, err := client.ListBrokers(ctx)
			var found []string
			for _, each := range brokers {
				found = append(found, fmt.Sprintf("%s:%d", each.Host, each.Port))
			}
			return answer{"brokers": found}, err
		}),
		"add-partitions": admin(func(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
			added, err := client.UpdatePartitions(ctx, 4, topic)
			if err == nil {
				err = added.Error()
			}
			return nothing(err)
		}),
		"describe-configs": admin(describeConfigs),
		"alter-configs": admin(func(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
			changed := []kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("654321")}}
			altered, err := client.AlterTopicConfigs(ctx, changed, topic)
			if err == nil {
				err = altered[0].Err
			}
			return nothing(err)
		}),
		"list-offsets": admin(listOffsets),
		"delete-records": admin(func(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
			var before kadm.Offsets
			before.Add(kadm.Offset{Topic: topic, At: 4})
			deleted, err := client.DeleteRecords(ctx, before)
			return answer{"low": deleted[topic][0].LowWatermark}, err
		}),
		"delete-topic": admin(func(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
			deleted, err := client.DeleteTopic(ctx, topic)
			if err == nil {
				err = deleted.Err
			}
			return nothing(err)
		}),
		"describe-acls": admin(func(ctx context.Context, client *kadm.Client, _, _ string) (answer, error) {
			any := kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().
				Operations().ResourcePatternType(kadm.ACLPatternAny)
			described, err := client.DescribeACLs(ctx, any)
			if err == nil {
				err = described[0].Err
			}
			return nothing(err)
		}),
		"list-groups": admin(func(ctx context.Context, client *kadm.Client, _, group string) (answer, error) {
			groups, err := client.ListGroups(ctx)
			_, listed := groups[group]
			return answer{"listed": listed}, err
		}),
		"describe-group": admin(describeGroup),
		"list-group-offsets": admin(func(ctx context.Context, client *kadm.Client, topic, group string) (answer, error) {
			offset, err := offsetOf(ctx, client, topic, group)
			return answer{"offset": offset}, err
		}),
		"delete-group": admin(func(ctx context.Context, client *kadm.Client, _, group string) (answer, error) {
			deleted, err := client.DeleteGroup(ctx, group)
			if err == nil {
				err = deleted.Err
			}
			return nothing(err)
		}),
		"produce": func(ctx context.Context, topic, codec string) (answer, error) {
			return send(ctx, records(topic), kgo.ProducerBatchCompression(codecs[codec]))
		},
		"acks": func(ctx context.Context, topic, acks string) (answer, error) {
			return send(ctx, records(topic), kgo.RequiredAcks(acknowledgements[acks]), kgo.DisableIdempotentWrite())
		},
		"idempotent":  sending(records),
		"timestamps":  sending(stamped),
		"headers":     sending(withHeaders),
		"null-key":    sending(oneOf(nil, []byte("value"))),
		"null-value":  sending(oneOf([]byte("key"), nil)),
		"megabyte":    sending(oneOf([]byte("key"), letters(1_000_000)), kgo.ProducerBatchMaxBytes(1_048_576)),
		"too-large":   sending(oneOf([]byte("key"), letters(5000)), kgo.ProducerBatchCompression(kgo.NoCompression())),
		"auto-create": sending(oneOf([]byte("key"), []byte("value"))),
		"read":        reading("records", count, 0, rowOf),
		"read-timestamps": reading("timestamps", count, 0, func(record *kgo.Record) any {
			return record.Timestamp.UnixMilli()
		}),
		"read-headers":  readHeaders,
		"read-nulls":    reading("records", 2, 0, rowOf),
		"read-megabyte": reading("sizes", 1, 0, func(record *kgo.Record) any { return len(record.Value) }),
		"seek-offset":   reading("offsets", 3, 7, func(record *kgo.Record) any { return record.Offset }),
		"seek-end":      admin(listOffsets),
		"seek-time": admin(func(ctx context.Context, client *kadm.Client, topic, _ string) (answer, error) {
			offsets, err := client.ListOffsetsAfterMilli(ctx, stamp(4).UnixMilli()+1, topic)
			return answer{"offset": offsets[topic][0].Offset}, err
		}),
		"read-committed": reading("keys", 5, 0, func(record *kgo.Record) any {
			return string(record.Key)
		}, kgo.FetchIsolationLevel(kgo.ReadCommitted())),
		"group-read":        reader(count),
		"group-resume":      reader(4),
		"static-member":     reader(count, kgo.InstanceID("one")),
		"consumer-protocol": reader(count, kgo.WithContext(optIn())),
		"group-share":       sharing(kgo.RangeBalancer()),
		"cooperative":       sharing(kgo.CooperativeStickyBalancer()),
		"commit": admin(func(ctx context.Context, client *kadm.Client, topic, group string) (answer, error) {
			var offsets kadm.Offsets
			offsets.Add(kadm.Offset{Topic: topic, At: 4, LeaderEpoch: -1})
			if err := client.CommitAllOffsets(ctx, group, offsets); err != nil {
				return nil, err
			}
			offset, err := offsetOf(ctx, client, topic, group)
			return answer{"committed": offset}, err
		}),
		"txn-commit":  transacting(kgo.TryCommit, nil),
		"txn-abort":   transacting(kgo.TryAbort, nil),
		"txn-offsets": transacting(kgo.TryCommit, sendOffsets),
		"txn-fence":   transacting(kgo.TryCommit, fence),
	})
}
