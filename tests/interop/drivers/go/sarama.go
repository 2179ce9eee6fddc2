// Scenarios with sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var acknowledgements = map[string]sarama.RequiredAcks{
	"0": sarama.NoResponse, "1": sarama.WaitForLocal, "-1": sarama.WaitForAll,
}

var addresses = []string{os.Args[1]}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	return config
}

// admin returns an action that an admin client does.
func admin(do func(admin sarama.ClusterAdmin, topic, group string) (answer, error)) action {
	return func(_ context.Context, topic, group string) (answer, error) {
		found, err := sarama.NewClusterAdmin(addresses, settings())
		if err != nil {
			return nil, err
		}
		defer found.Close()
		return do(found, topic, group)
	}
}

func messages(topic string) []*sarama.ProducerMessage {
	var found []*sarama.ProducerMessage
	for n := range count {
		found = append(found, &sarama.ProducerMessage{
			Topic: topic, Key: sarama.ByteEncoder(key(n)), Value: sarama.ByteEncoder(value(n)),
		})
	}
	return found
}

func one(topic string, key, value []byte) []*sarama.ProducerMessage {
	message := &sarama.ProducerMessage{Topic: topic}
	if key != nil {
		message.Key = sarama.ByteEncoder(key)
	}
	if value != nil {
		message.Value = sarama.ByteEncoder(value)
	}
	return []*sarama.ProducerMessage{message}
}

func send(messages []*sarama.ProducerMessage, change func(*sarama.Config)) (answer, error) {
	config := settings()
	change(config)
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	return nothing(reasons(producer.SendMessages(messages)))
}

// reasons returns the errors of single messages instead of the number of those that failed.
func reasons(err error) error {
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) {
		return failed[0].Err
	}
	return err
}

func unchanged(*sarama.Config) {}

// sending returns an action that produces messages.
func sending(messages func(topic string) []*sarama.ProducerMessage, change func(*sarama.Config)) action {
	return func(_ context.Context, topic, _ string) (answer, error) {
		return send(messages(topic), change)
	}
}

func read(ctx context.Context, topic string, wanted int, from int64, level sarama.IsolationLevel) (
	[]*sarama.ConsumerMessage, error,
) {
	config := settings()
	config.Consumer.IsolationLevel = level
	consumer, err := sarama.NewConsumer(addresses, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, from)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	var found []*sarama.ConsumerMessage
	for len(found) < wanted {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case <-ctx.Done():
			return found, ctx.Err()
		}
	}
	return found, nil
}

// reading returns an action that lists something of each message of partition 0.
func reading(name string, wanted int, from int64, of func(*sarama.ConsumerMessage) any) action {
	return func(ctx context.Context, topic, _ string) (answer, error) {
		found, err := read(ctx, topic, wanted, from, sarama.ReadCommitted)
		list := []any{}
		for _, each := range found {
			list = append(list, of(each))
		}
		return answer{name: list}, err
	}
}

func rowOf(message *sarama.ConsumerMessage) any {
	return row(message.Offset, message.Key, message.Value)
}

func readHeaders(ctx context.Context, topic, _ string) (answer, error) {
	found, err := read(ctx, topic, 1, 0, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	var headers []any
	for _, each := range found[0].Headers {
		headers = append(headers, []any{string(each.Key), string(each.Value)})
	}
	return answer{"headers": headers}, nil
}

// member reads `wanted` messages and commits, or waits until it has one partition as the other has.
type member struct {
	wanted int
	count  int
	lock   sync.Mutex
	mine   int
	done   context.CancelFunc
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.mine = 0
	for _, partitions := range session.Claims() {
		m.mine += len(partitions)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) assigned() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.mine
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			session.MarkMessage(message, "")
			session.Commit()
			m.lock.Lock()
			m.count++
			if m.count == m.wanted {
				m.done()
			}
			m.lock.Unlock()
		case <-session.Context().Done():
			return nil
		}
	}
}

func run(ctx context.Context, topic, group string, joined *member, change func(*sarama.Config)) error {
	config := settings()
	change(config)
	consumer, err := sarama.NewConsumerGroup(addresses, group, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{topic}, joined); err != nil {
			return err
		}
	}
	return nil
}

// reader returns an action that reads in a group and commits.
func reader(wanted int, change func(*sarama.Config)) action {
	return func(ctx context.Context, topic, group string) (answer, error) {
		until, done := context.WithCancel(ctx)
		defer done()
		joined := &member{wanted: wanted, done: done}
		err := run(until, topic, group, joined, change)
		return answer{"count": joined.count}, err
	}
}

func share(ctx context.Context, topic, group string) (answer, error) {
	until, done := context.WithCancel(ctx)
	members := []*member{{done: done}, {done: done}}
	var running sync.WaitGroup
	for _, each := range members {
		running.Go(func() { run(until, topic, group, each, unchanged) })
	}
	counts := []int{0, 0}
	for (counts[0] != 1 || counts[1] != 1) && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		counts = []int{members[0].assigned(), members[1].assigned()}
	}
	done()
	running.Wait()
	return answer{"assigned": counts}, nil
}

// transacting returns an action with a transaction, which `end` ends.
func transacting(end func(producer sarama.SyncProducer, topic, group string) error) action {
	return func(_ context.Context, topic, group string) (answer, error) {
		producer, err := transactional(group)
		if err != nil {
			return nil, err
		}
		defer producer.Close()
		if err := producer.SendMessages(messages(topic)); err != nil {
			return nil, reasons(err)
		}
		return nothing(end(producer, topic, group))
	}
}

func transactional(name string) (sarama.SyncProducer, error) {
	config := settings()
	idempotent(config)
	config.Producer.Transaction.ID = name
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return nil, err
	}
	return producer, producer.BeginTxn()
}

func idempotent(config *sarama.Config) {
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
}

func sendOffsets(producer sarama.SyncProducer, topic, group string) error {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 5}}}
	if err := producer.AddOffsetsToTxn(offsets, group); err != nil {
		return err
	}
	return producer.CommitTxn()
}

func fence(first sarama.SyncProducer, topic, group string) error {
	second, err := transactional(group)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := first.SendMessages(messages(topic)); err != nil {
		return reasons(err)
	}
	return first.CommitTxn()
}

func ends(topic string, times ...int64) ([]int64, error) {
	client, err := sarama.NewClient(addresses, settings())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []int64
	for _, each := range times {
		offset, err := client.GetOffset(topic, 0, each)
		if err != nil {
			return nil, err
		}
		found = append(found, offset)
	}
	return found, nil
}

func bothEnds(_ context.Context, topic, _ string) (answer, error) {
	found, err := ends(topic, sarama.OffsetOldest, sarama.OffsetNewest)
	if err != nil {
		return nil, err
	}
	return answer{"earliest": found[0], "latest": found[1], "ends": found}, nil
}

func commit(_ context.Context, topic, group string) (answer, error) {
	client, err := sarama.NewClient(addresses, settings())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	manager, err := sarama.NewOffsetManagerFromClient(group, client)
	if err != nil {
		return nil, err
	}
	defer manager.Close()
	partition, err := manager.ManagePartition(topic, 0)
	if err != nil {
		return nil, err
	}
	partition.MarkOffset(4, "")
	manager.Commit()
	offset, _ := partition.NextOffset()
	return answer{"committed": offset}, nil
}

func createTopic(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
	size := "500000"
	detail := &sarama.TopicDetail{
		NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"max.message.bytes": &size},
	}
	return nothing(admin.CreateTopic(topic, detail, false))
}

func describeCluster(admin sarama.ClusterAdmin, _, _ string) (answer, error) {
	brokers, _, err := admin.DescribeCluster()
	var found []string
	for _, each := range brokers {
		found = append(found, each.Addr())
	}
	return answer{"brokers": found}, err
}

func describeConfigs(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	for _, each := range entries {
		if each.Name == "retention.ms" {
			return answer{"retention.ms": each.Value}, err
		}
	}
	return nil, fmt.Errorf("no retention.ms, %w", err)
}

func alterConfigs(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
	retention := "654321"
	entries := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention},
	}
	return nothing(admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false))
}

func deleteRecords(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
	if err := admin.DeleteRecords(topic, map[int32]int64{0: 4}); err != nil {
		return nil, err
	}
	found, err := ends(topic, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	return answer{"low": found[0]}, nil
}

func describeAcls(admin sarama.ClusterAdmin, _, _ string) (answer, error) {
	acls, err := admin.ListAcls(sarama.AclFilter{
		ResourceType:              sarama.AclResourceAny,
		ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation:                 sarama.AclOperationAny,
		PermissionType:            sarama.AclPermissionAny,
	})
	return answer{"acls": len(acls)}, err
}

func describeGroup(admin sarama.ClusterAdmin, _, group string) (answer, error) {
	described, err := admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return nil, err
	}
	return answer{"state": strings.ToLower(described[0].State), "members": len(described[0].Members)}, nil
}

func groupOffsets(admin sarama.ClusterAdmin, topic, group string) (answer, error) {
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	if err != nil {
		return nil, err
	}
	return answer{"offset": offsets.GetBlock(topic, 0).Offset}, nil
}

func main() {
	stamped := func(topic string) []*sarama.ProducerMessage {
		found := messages(topic)
		for n, each := range found {
			each.Timestamp = stamp(n)
		}
		return found
	}
	withHeaders := func(topic string) []*sarama.ProducerMessage {
		found := one(topic, []byte("key"), []byte("value"))
		found[0].Headers = []sarama.RecordHeader{
			{Key: []byte("trace"), Value: []byte("1")},
			{Key: []byte("trace"), Value: []byte("2")},
			{Key: []byte("empty"), Value: []byte{}},
		}
		return found
	}
	oneOf := func(key, value []byte) func(string) []*sarama.ProducerMessage {
		return func(topic string) []*sarama.ProducerMessage { return one(topic, key, value) }
	}
	drive(map[string]action{
		"create-topic": admin(createTopic),
		"list-topics": admin(func(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
			topics, err := admin.ListTopics()
			_, listed := topics[topic]
			return answer{"listed": listed}, err
		}),
		"describe-topic": admin(func(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
			topics, err := admin.DescribeTopics([]string{topic})
			if err != nil {
				return nil, err
			}
			return answer{"partitions": len(topics[0].Partitions)}, nil
		}),
		"describe-cluster": admin(describeCluster),
		"add-partitions": admin(func(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
			return nothing(admin.CreatePartitions(topic, 4, nil, false))
		}),
		"describe-configs": admin(describeConfigs),
		"alter-configs":    admin(alterConfigs),
		"list-offsets":     bothEnds,
		"delete-records":   admin(deleteRecords),
		"delete-topic": admin(func(admin sarama.ClusterAdmin, topic, _ string) (answer, error) {
			return nothing(admin.DeleteTopic(topic))
		}),
		"describe-acls": admin(describeAcls),
		"list-groups": admin(func(admin sarama.ClusterAdmin, _, group string) (answer, error) {
			groups, err := admin.ListConsumerGroups()
			_, listed := groups[group]
			return answer{"listed": listed}, err
		}),
		"describe-group":     admin(describeGroup),
		"list-group-offsets": admin(groupOffsets),
		"delete-group": admin(func(admin sarama.ClusterAdmin, _, group string) (answer, error) {
			return nothing(admin.DeleteConsumerGroup(group))
		}),
		"produce": func(_ context.Context, topic, codec string) (answer, error) {
			return send(messages(topic), func(config *sarama.Config) { config.Producer.Compression = codecs[codec] })
		},
		"acks": func(_ context.Context, topic, acks string) (answer, error) {
			return send(messages(topic), func(config *sarama.Config) {
				config.Producer.RequiredAcks = acknowledgements[acks]
			})
		},
		"idempotent":  sending(messages, idempotent),
		"timestamps":  sending(stamped, unchanged),
		"headers":     sending(withHeaders, unchanged),
		"null-key":    sending(oneOf(nil, []byte("value")), unchanged),
		"null-value":  sending(oneOf([]byte("key"), nil), unchanged),
		"megabyte":    sending(oneOf([]byte("key"), letters(1_000_000)), unchanged),
		"too-large":   sending(oneOf([]byte("key"), letters(5000)), unchanged),
		"auto-create": sending(oneOf([]byte("key"), []byte("value")), unchanged),
		"read":        reading("records", count, 0, rowOf),
		"read-timestamps": reading("timestamps", count, 0, func(message *sarama.ConsumerMessage) any {
			return message.Timestamp.UnixMilli()
		}),
		"read-headers":  readHeaders,
		"read-nulls":    reading("records", 2, 0, rowOf),
		"read-megabyte": reading("sizes", 1, 0, func(message *sarama.ConsumerMessage) any { return len(message.Value) }),
		"seek-offset":   reading("offsets", 3, 7, func(message *sarama.ConsumerMessage) any { return message.Offset }),
		"seek-end":      bothEnds,
		"seek-time": func(_ context.Context, topic, _ string) (answer, error) {
			found, err := ends(topic, stamp(4).UnixMilli()+1)
			if err != nil {
				return nil, err
			}
			return answer{"offset": found[0]}, nil
		},
		"read-committed": reading("keys", 5, 0, func(message *sarama.ConsumerMessage) any { return string(message.Key) }),
		"group-read":     reader(count, unchanged),
		"group-resume":   reader(4, unchanged),
		"static-member": reader(count, func(config *sarama.Config) {
			config.Consumer.Group.InstanceId = "one"
		}),
		"group-share": share,
		"commit":      commit,
		"txn-commit": transacting(func(producer sarama.SyncProducer, _, _ string) error {
			return producer.CommitTxn()
		}),
		"txn-abort": transacting(func(producer sarama.SyncProducer, _, _ string) error {
			return producer.AbortTxn()
		}),
		"txn-offsets": transacting(sendOffsets),
		"txn-fence":   transacting(fence),
	})
}
