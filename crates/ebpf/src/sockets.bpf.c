// Counts TCP socket events in the kernel: state changes, retransmits, resets, accept waits.
//
// Source: the kernel's include/trace/events/{sock,tcp,syscalls}.h, net/ipv4/{tcp,tcp_output,inet_connection_sock}.c.
//
// Nothing is sent to user space per connection. Each event adds to an entry of a hash map. Once a
// second user space switches between two halves (a byte of the key) and reads the half that is no
// longer written to. Events that a full map drops are counted.
//
// Kernel types are declared with only the fields that are read; BTF supplies their offsets in the
// running kernel (CO-RE). Outside the kernel this file is under the project's licence; the kernel
// requires a GPL-compatible one.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define READ_BY_BTF __attribute__((preserve_access_index))
#define UINT(name, value) int(*name)[value]
#define TYPE(name, value) value *name

// linux/bpf.h: helpers by number, map types, flags.
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*now_ns)(void) = (void *)5;
static void *(*current_task)(void) = (void *)35;
static long (*read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PER_CPU_ARRAY = 6 };
enum { ANY = 0, IF_NEW = 1 };

// Reads a field of a READ_BY_BTF type through a pointer that the verifier does not track.
#define READ(field)                                                                         \
    ({                                                                                      \
        __typeof__(field) value = 0;                                                        \
        read_kernel(&value, sizeof(value), __builtin_preserve_access_index(&(field)));      \
        value;                                                                              \
    })

// net/tcp_states.h, linux/socket.h, linux/in.h.
enum {
    ESTABLISHED = 1, SYN_SENT = 2, SYN_RECV = 3, FIN_WAIT1 = 4, TIME_WAIT = 6, CLOSE = 7, CLOSE_WAIT = 8,
    NEW_SYN_RECV = 12
};
enum { INET = 2, INET6 = 10, TCP = 6 };

struct ns_common { u32 inum; } READ_BY_BTF;
struct net { struct ns_common ns; } READ_BY_BTF;
typedef struct { struct net *net; } READ_BY_BTF possible_net_t;
struct in6_addr { u8 bytes[16]; };
struct sock_common {
    u32 skc_daddr;
    u32 skc_rcv_saddr;
    u16 skc_dport;
    u16 skc_num;
    u16 skc_family;
    u8 skc_state;
    possible_net_t skc_net;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
} READ_BY_BTF;
struct socket;
struct sock {
    struct sock_common __sk_common;
    u16 sk_protocol;
    u32 sk_max_ack_backlog;
    struct socket *sk_socket;
} READ_BY_BTF;
struct inet_sock { struct sock sk; u16 inet_sport; } READ_BY_BTF;
struct request_sock { struct sock_common __req_common; } READ_BY_BTF;
struct sk_buff { char cb[48]; } READ_BY_BTF;
struct tcp_skb_cb { u16 tcp_gso_segs; } READ_BY_BTF;
struct socket { struct sock *sk; } READ_BY_BTF;
struct file { void *private_data; } READ_BY_BTF;
struct fdtable { u32 max_fds; struct file **fd; } READ_BY_BTF;
struct files_struct { struct fdtable *fdt; } READ_BY_BTF;
struct task_struct { struct files_struct *files; } READ_BY_BTF;
// Since Linux 6.17 the tracepoint also reports segments that could not be sent, with their error.
struct trace_event_raw_tcp_retransmit_skb { int err; } READ_BY_BTF;

#if defined(__TARGET_ARCH_x86)
struct pt_regs { u64 orig_ax; } READ_BY_BTF;
#define SYSCALL(regs) ((regs)->orig_ax)
enum { ACCEPT = 43, ACCEPT4 = 288 };
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs { int syscallno; } READ_BY_BTF;
#define SYSCALL(regs) ((regs)->syscallno)
enum { ACCEPT = 202, ACCEPT4 = 242 };
#endif

// Key of a counter, decoded by kernel.rs. Unused parts and padding are 0.
struct key {
    u32 netns;
    u16 port;   // the server's
    u8 side;    // of the connection this host is
    u8 family;
    u8 half;
    u8 padding[3];
    u8 address[16];
};
enum { SERVER = 1, CLIENT = 2 };

// In the order of the enums below.
struct counts { u64 of[5]; };
enum { OPENED, CLOSED_HERE, CLOSED_BY_PEER, ABORTED, CONNECT_FAILED };
enum { RETRANSMITS, SYN_RETRANSMITS, SYN_ACK_RETRANSMITS, RESETS_SENT, RESETS_RECEIVED };

// 16 buckets per power of two of microseconds: the error is at most 1/16.
enum { BUCKETS = 384 };
struct accepts {
    u64 accepted;
    u64 abandoned;
    u64 wait_us_sum;
    u64 wait_us_max;
    u32 buckets[BUCKETS];
};
const struct accepts no_accepts = {};

// A connection in an accept queue.
struct waiting {
    u64 since_ns;
    struct key listener;
    u32 padding;
};

struct { UINT(type, MAP_ARRAY); UINT(max_entries, 1); TYPE(key, u32); TYPE(value, u32); } active_half SEC(".maps");
struct { UINT(type, MAP_HASH); UINT(max_entries, 1); TYPE(key, struct key); TYPE(value, struct counts); }
    states SEC(".maps");
struct { UINT(type, MAP_HASH); UINT(max_entries, 1); TYPE(key, struct key); TYPE(value, struct counts); }
    peers SEC(".maps");
struct { UINT(type, MAP_HASH); UINT(max_entries, 1); TYPE(key, struct key); TYPE(value, struct accepts); }
    listeners SEC(".maps");
struct { UINT(type, MAP_HASH); UINT(max_entries, 1); TYPE(key, u64); TYPE(value, struct waiting); }
    queued SEC(".maps");
// Events dropped by full maps, by map.
enum { LOST_STATES, LOST_PEERS, LOST_LISTENERS, LOST_QUEUED, LOST_KINDS };
struct { UINT(type, MAP_PER_CPU_ARRAY); UINT(max_entries, LOST_KINDS); TYPE(key, u32); TYPE(value, u64); }
    lost SEC(".maps");

INLINE void lose(u32 kind)
{
    u64 *count = map_lookup(&lost, &kind);
    if (count)
        *count += 1;
}

// Returns the entry of a key, creating it if missing; null when the map is full.
INLINE void *entry(void *map, struct key *key, const void *empty, u32 kind)
{
    u32 zero = 0;
    u32 *half = map_lookup(&active_half, &zero);
    key->half = half ? *half : 0;
    void *found = map_lookup(map, key);
    if (!found) {
        map_update(map, key, empty, IF_NEW);
        found = map_lookup(map, key);
        if (!found)
            lose(kind);
    }
    return found;
}

INLINE void add(void *map, struct key *key, u32 what, u64 number, u32 kind)
{
    struct counts none = {};
    struct counts *counts = entry(map, key, &none, kind);
    if (counts)
        __sync_fetch_and_add(&counts->of[what], number);
}

// A child of a listener copies its backlog; connecting sockets have none.
INLINE u8 side_of(struct sock *sk)
{
    return READ(sk->sk_max_ack_backlog) ? SERVER : CLIENT;
}

// Port of the server. `skc_num` is already 0 when a socket closes.
INLINE u16 server_port(struct sock *sk, u8 side)
{
    u16 port;
    if (side == SERVER)
        port = READ(((struct inet_sock *)sk)->inet_sport);
    else
        port = READ(sk->__sk_common.skc_dport);
    return __builtin_bswap16(port);
}

INLINE u32 netns_of(struct sock_common *common)
{
    struct net *net = READ(common->skc_net.net);
    return READ(net->ns.inum);
}

enum end { LOCAL, PEER };

INLINE void set_address(struct key *key, struct sock_common *common, enum end end)
{
    key->family = READ(common->skc_family);
    if (key->family == INET6) {
        void *from = end == PEER ? __builtin_preserve_access_index(&common->skc_v6_daddr)
                                       : __builtin_preserve_access_index(&common->skc_v6_rcv_saddr);
        read_kernel(key->address, 16, from);
    } else {
        u32 address = end == PEER ? READ(common->skc_daddr) : READ(common->skc_rcv_saddr);
        __builtin_memcpy(key->address, &address, 4);
    }
}

// --- accept queues

INLINE u32 bucket_of(u64 us)
{
    if (us >= 1ull << 27)
        return BUCKETS - 1;
    u32 rest = us, shift = 0;
    if (rest >= 1 << 16) { rest >>= 16; shift += 16; }
    if (rest >= 1 << 8) { rest >>= 8; shift += 8; }
    if (rest >= 1 << 4) { rest >>= 4; shift += 4; }
    if (rest >= 1 << 2) { rest >>= 2; shift += 2; }
    if (rest >= 1 << 1) shift += 1;
    if (shift < 4)
        return us;
    return (shift - 3) * 16 + ((us >> (shift - 4)) & 15);
}

INLINE void accepted(u64 socket)
{
    struct waiting *waiting = map_lookup(&queued, &socket);
    struct key key = {};
    u64 us = 0;
    if (waiting) {
        key = waiting->listener;
        us = (now_ns() - waiting->since_ns) / 1000;
        map_delete(&queued, &socket);
    } else {
        struct sock *sk = (struct sock *)socket;
        struct sock_common *common = __builtin_preserve_access_index(&sk->__sk_common);
        u16 family = READ(common->skc_family);
        if ((family != INET && family != INET6) || READ(sk->sk_protocol) != TCP)
            return;
        key.side = SERVER;
        key.netns = netns_of(common);
        key.port = server_port(sk, SERVER);
        set_address(&key, common, LOCAL);
    }
    struct accepts *accepts = entry(&listeners, &key, &no_accepts, LOST_LISTENERS);
    if (!accepts)
        return;
    __sync_fetch_and_add(&accepts->accepted, 1);
    if (!waiting)
        return;
    u64 bucket = bucket_of(us);
    // The compiler would optimize away this check, which the verifier requires.
    __asm__ volatile("" : "+r"(bucket));
    if (bucket < BUCKETS)
        __sync_fetch_and_add(&accepts->buckets[bucket], 1);
    __sync_fetch_and_add(&accepts->wait_us_sum, us);
    // Concurrent updates may keep the smaller value; the buckets still hold the larger within 1/16.
    if (us > accepts->wait_us_max)
        accepts->wait_us_max = us;
}

// tp_btf: (struct pt_regs *regs, long ret). Runs on every system call of the host.
SEC("tp_btf/sys_exit") int on_sys_exit(u64 *context)
{
    struct pt_regs *regs = (void *)context[0];
    long descriptor = context[1];
    if (descriptor < 0)
        return 0;
    u64 number = SYSCALL(regs);
    if (number != ACCEPT && number != ACCEPT4)
        return 0;
    struct task_struct *task = current_task();
    struct files_struct *files = READ(task->files);
    struct fdtable *table = READ(files->fdt);
    if (descriptor >= READ(table->max_fds))
        return 0;
    struct file **slots = READ(table->fd), *file = 0;
    read_kernel(&file, sizeof(file), slots + descriptor);
    struct socket *socket = READ(file->private_data);
    struct sock *sk = READ(socket->sk);
    if (sk)
        accepted((u64)sk);
    return 0;
}

INLINE void begin_to_wait(struct sock *sk, const struct key *place)
{
    struct waiting waiting = { .since_ns = now_ns(), .listener = *place };
    u64 socket = (u64)sk;
    set_address(&waiting.listener, __builtin_preserve_access_index(&sk->__sk_common), LOCAL);
    if (map_update(&queued, &socket, &waiting, ANY))
        lose(LOST_QUEUED);
}

// End of a connection that was never accepted.
INLINE void end_to_wait(struct sock *sk)
{
    u64 socket = (u64)sk;
    struct waiting *waiting = map_lookup(&queued, &socket);
    if (!waiting)
        return;
    struct key key = waiting->listener;
    map_delete(&queued, &socket);
    // A descriptor means it was accepted without a system call, for example by io_uring.
    if (READ(sk->sk_socket))
        return;
    struct accepts *accepts = entry(&listeners, &key, &no_accepts, LOST_LISTENERS);
    if (accepts)
        __sync_fetch_and_add(&accepts->abandoned, 1);
}

volatile const u32 times_accepts = 0;

// tp_btf: (struct sock *sk, const int oldstate, const int newstate).
SEC("tp_btf/inet_sock_set_state") int on_state(u64 *context)
{
    struct sock *sk = (void *)context[0];
    int from = context[1], to = context[2];
    u32 what;
    if (to == ESTABLISHED && (from == SYN_RECV || from == SYN_SENT))
        what = OPENED;
    else if (from == ESTABLISHED && to == FIN_WAIT1)
        what = CLOSED_HERE;
    else if (from == ESTABLISHED && to == CLOSE_WAIT)
        what = CLOSED_BY_PEER;
    else if (from == ESTABLISHED && to == CLOSE)
        what = ABORTED;
    else if (from == SYN_SENT && to == CLOSE)
        what = CONNECT_FAILED;
    else if (to != CLOSE)
        return 0;
    else
        what = -1;
    if (sk->sk_protocol != TCP)
        return 0;
    if (to == CLOSE && times_accepts)
        end_to_wait(sk);
    if (what > CONNECT_FAILED)
        return 0;
    struct key key = {};
    key.side = side_of(sk);
    key.port = server_port(sk, key.side);
    key.netns = netns_of(__builtin_preserve_access_index(&sk->__sk_common));
    if (what == OPENED && from == SYN_RECV && times_accepts && !READ(sk->sk_socket))
        begin_to_wait(sk, &key);
    add(&states, &key, what, 1, LOST_STATES);
    return 0;
}

// --- peers

INLINE void count_peer(struct sock *sk, u32 what, u64 number, u32 also)
{
    struct key key = {};
    key.side = side_of(sk);
    key.port = server_port(sk, key.side);
    struct sock_common *common = __builtin_preserve_access_index(&sk->__sk_common);
    key.netns = netns_of(common);
    set_address(&key, common, PEER);
    add(&peers, &key, what, number, LOST_PEERS);
    if (also != what)
        add(&peers, &key, also, number, LOST_PEERS);
}

// tp_btf: (struct sock *sk, struct sk_buff *skb, int err); err since Linux 6.17.
SEC("tp_btf/tcp_retransmit_skb") int on_retransmit(u64 *context)
{
    struct sock *sk = (void *)context[0];
    struct sk_buff *skb = (void *)context[1];
    if (__builtin_preserve_field_info(((struct trace_event_raw_tcp_retransmit_skb *)0)->err, 2))
        if ((int)context[2])
            return 0;
    struct tcp_skb_cb *cb = (void *)__builtin_preserve_access_index(&skb->cb);
    u64 segments = READ(cb->tcp_gso_segs);
    u32 also = READ(sk->__sk_common.skc_state) == SYN_SENT ? SYN_RETRANSMITS : RETRANSMITS;
    count_peer(sk, RETRANSMITS, segments ? segments : 1, also);
    return 0;
}

// tp_btf: (struct sock *listener, struct request_sock *req).
SEC("tp_btf/tcp_retransmit_synack") int on_retransmit_synack(u64 *context)
{
    struct request_sock *req = (void *)context[1];
    struct sock_common *common = __builtin_preserve_access_index(&req->__req_common);
    struct key key = {};
    key.side = SERVER;
    key.port = READ(common->skc_num);
    key.netns = netns_of(common);
    set_address(&key, common, PEER);
    add(&peers, &key, RETRANSMITS, 1, LOST_PEERS);
    add(&peers, &key, SYN_ACK_RETRANSMITS, 1, LOST_PEERS);
    return 0;
}

// tp_btf: (struct sock *sk, …). Null when the reset answers a segment without a connection; a socket
// in TIME_WAIT or before the end of its handshake has a smaller struct.
SEC("tp_btf/tcp_send_reset") int on_send_reset(u64 *context)
{
    struct sock *sk = (void *)context[0];
    if (!sk)
        return 0;
    u8 state = READ(sk->__sk_common.skc_state);
    if (state != TIME_WAIT && state != NEW_SYN_RECV)
        count_peer(sk, RESETS_SENT, 1, RESETS_SENT);
    return 0;
}

// tp_btf: (struct sock *sk).
SEC("tp_btf/tcp_receive_reset") int on_receive_reset(u64 *context)
{
    struct sock *sk = (void *)context[0];
    count_peer(sk, RESETS_RECEIVED, 1, RESETS_RECEIVED);
    return 0;
}

char licence[] SEC("license") = "Dual MIT/GPL";
