// A server of kfake, which does what its standard input asks for, a line at a time, and answers with a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	port, _ := strconv.Atoi(os.Args[1])
	cluster := kfake.MustCluster(
		kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(os.Args[2]), kfake.SyncWrites(),
		kfake.AllowAutoTopicCreation(),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	)
	var guard sync.Mutex
	acks := []int16{}
	var last kmsg.Request
	cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Observe: true,
		When: func(request kmsg.Request) bool {
			guard.Lock()
			defer guard.Unlock()
			// It is asked again for each partition.
			if request != last {
				last = request
				acks = append(acks, request.(*kmsg.ProduceRequest).Acks)
			}
			return true
		},
	})
	fmt.Println(cluster.ListenAddrs()[0])
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		number := 0
		if len(words) > 1 {
			number, _ = strconv.Atoi(words[1])
		}
		answer := "done"
		switch words[0] {
		case "refuse":
			cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: number,
			})
		case "lose":
			// The one way to have the work done and not acknowledged.
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 1})
		case "delay":
			cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				cluster.SleepControl(func() { time.Sleep(time.Duration(number) * time.Millisecond) })
				return nil, nil, false
			})
		case "compact":
			cluster.Compact()
		case "expire":
			cluster.ApplyRetention()
		case "acks":
			guard.Lock()
			encoded, _ := json.Marshal(acks)
			guard.Unlock()
			answer = string(encoded)
		}
		fmt.Println(answer)
	}
}
