// Package proc reads what Linux says about a running process: CPU time, memory, open descriptors and children.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the CPU times in /proc/PID/stat: USER_HZ, 100 on every Linux architecture that Go supports.
const tick = 10 * time.Millisecond

// stat is the part of /proc/PID/stat that is used here (proc(5)).
type stat struct {
	parent       int
	user, system time.Duration
}

// parseStat reads the text of /proc/PID/stat. The second field, the command, may hold blanks and parentheses, so the
// fields are counted from the last parenthesis.
func parseStat(text []byte) (stat, error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return stat{}, fmt.Errorf("stat: %d fields after the command, want at least 13", len(fields))
	}
	var numbers [3]int64
	for i, index := range []int{1, 11, 12} {
		n, err := strconv.ParseInt(string(fields[index]), 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("stat: field %d after the command: %w", index, err)
		}
		numbers[i] = n
	}
	return stat{int(numbers[0]), time.Duration(numbers[1]) * tick, time.Duration(numbers[2]) * tick}, nil
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// Tree returns pid and all its descendants.
func Tree(pid int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc") // no /proc: no descendants
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil {
			children[s.parent] = append(children[s.parent], child)
		}
	}
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// CPU is the processor time that some processes have used since they started.
type CPU struct {
	// Total is exact to the nanosecond and includes threads that have ended.
	Total time.Duration
	// User and System split the total, in steps of 10 ms.
	User, System time.Duration
}

// ReadCPU adds up the CPU times of the processes.
func ReadCPU(pids []int) (CPU, error) {
	var sum CPU
	for _, pid := range pids {
		total, err := processTime(pid)
		if err != nil {
			return CPU{}, fmt.Errorf("reading the CPU clock of process %d: %w", pid, err)
		}
		s, err := readStat(pid)
		if err != nil {
			return CPU{}, err
		}
		sum.Total += total
		sum.User += s.user
		sum.System += s.system
	}
	return sum, nil
}

// Sub returns the time used between the reading before and this one.
func (c CPU) Sub(before CPU) CPU {
	return CPU{c.Total - before.Total, c.User - before.User, c.System - before.System}
}

// Memory is what some processes hold.
type Memory struct {
	// RSS and PSS are the resident bytes; PSS shares out the pages that several processes map.
	RSS, PSS int64
	// Descriptors counts the open files.
	Descriptors int64
}

// ReadMemory adds up the memory and the descriptors of the processes.
func ReadMemory(pids []int) (Memory, error) {
	var sum Memory
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return Memory{}, err
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return Memory{}, err
		}
		kib := parseKiB(text)
		sum.RSS += kib["Rss"] << 10
		sum.PSS += kib["Pss"] << 10
		sum.Descriptors += int64(len(open))
	}
	return sum, nil
}

// Slab returns the bytes of kernel memory in unreclaimable slabs: sockets, pipes and the like, of the whole machine.
func Slab() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return parseKiB(text)["SUnreclaim"] << 10, nil
}

// parseKiB reads lines of the form "Name:   123 kB", as smaps_rollup and meminfo have them, and ignores others.
func parseKiB(text []byte) map[string]int64 {
	values := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			values[strings.TrimSuffix(fields[0], ":")] = n
		}
	}
	return values
}
