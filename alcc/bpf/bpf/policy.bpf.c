/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Rules that choose the congestion control of each connection: those of a policy's file and those of
 * `alcc attach`. One sock_ops program on the root cgroup does it for connections to come, an iterator for
 * those that exist; both use matches(). Units and cgroups of a file are compared by name, so that a unit
 * which restarts is followed without a daemon.
 *
 * All rules are one value of a map of their own, which user space exchanges as a whole: a connection is
 * compared with the old ones or with the new ones. What a program, a route or an administrator has chosen
 * for a socket stays, unless it was 'alcc attach' that named the socket.
 */
#include "kernel.h"

#include "before.h"
#include "chosen.h"
#include "share.h"
#include "unsent.h"
#include "watched.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define RULES 64
#define LABEL 152
/* Longest name of a cgroup, and most levels of them below the root. */
#define NAME 96
#define LEVELS 8
/* Levels of cgroups that are looked at for one by its number. */
#define DEEPEST 32
/* linux/rtnetlink.h: the metric of a route that names a congestion control, counted from 1. */
#define RTAX_CC_ALGO 16
#define IPPROTO_TCP 6

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	const char *name;
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[1];
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct dst_entry {
	unsigned long _metrics;
};

struct sock___policy {
	struct sock_cgroup_data sk_cgrp_data;
	struct dst_entry *sk_dst_cache;
	__u16 sk_protocol;
};

struct inet_connection_sock___policy {
	__u8 icsk_ca_setsockopt : 1, icsk_ca_dst_locked : 1;
};

struct tcp_sock___policy {
	bool is_mptcp;
};

struct socket {
	struct sock *sk;
};

struct task_struct {
	struct task_struct *group_leader;
	char comm[CC_NAME];
};

struct file;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct file *file;
};

#pragma clang attribute pop

/* A zero matches all. User space has sorted the rules: the first that matches counts. */
struct rule {
	__u64 cgroup; /* hash of a cgroup's name or path; of 'alcc attach' its number */
	__u64 salt;
	__be32 prefix[4];
	__be32 mask[4];
	__u16 family;
	__u16 port; /* local */
	__u16 per_mille; /* only this share of the clients; 0: all */
	__u8 bound; /* the control follows a limit of what is written ahead */
	__u8 leave; /* leave the connection alone */
	__u64 program[2]; /* name of the process that listens */
	char control[CC_NAME];
	struct options options;
	__u32 line; /* of the file; 0: of 'alcc attach' */
	char label[LABEL];
};

#define BY_CGROUP 1
#define BY_PROGRAM 2

struct policy {
	__u32 rules_len;
	__u16 attached_len;
	__u16 by; /* what rules name */
	__u64 applied; /* s since 1970 */
	__u64 secret; /* nobody else can make a name with the same hash */
	char file[112];
	struct rule rules[2 * RULES]; /* of the file, and from RULES on of 'alcc attach' */
};

/* By sizes: within another map the compiler does not describe types. */
struct one_policy {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct policy));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct one_policy);
} policies SEC(".maps");

/* The choice that 'alcc attach' replaced: one that the policy may replace, too, or another's. */
#define FREE 1
#define HELD 2

/* The work on a socket. A listening socket hands it to accepted connections. */
struct placed {
	char control[CC_NAME]; /* chosen by a rule; "": none */
	char back[CC_NAME]; /* given back */
	__u64 program[2]; /* name of the process that listens */
	__u32 attached; /* 0: not by 'alcc attach' */
	__u32 options; /* of the control, as one number: a control reads only one of them */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct placed);
} placed SEC(".maps");

/* The iterator's task. */
#define LOOK 0
#define APPLY 1
#define ROLL_BACK 2
#define ATTACH 3
#define DETACH 4

/* Filled before the programs are loaded. */
const volatile struct {
	__u32 act;
	__u8 by_inode; /* only sockets in `inodes` */
	__u8 listening; /* only sockets that listen */
	__u8 watch; /* a trial: note every connection that matches a rule */
	struct rule rule; /* only sockets that match it; what ATTACH gives them */
} wanted = {};

/* Sockets of the processes that were named, by inode. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u8);
} inodes SEC(".maps");

/* The origin of a socket's control. */
enum whose {
	SYSTEM, /* nobody for this socket */
	POLICY,
	SINCE, /* somebody after the policy */
	OWN, /* its program */
	ROUTE,
	MPTCP, /* a part of such a connection */
	ATTACHED, /* 'alcc attach' */
};

/* ... those of an earlier rule, or of somebody since then. */
#define EARLIER 1
#define SINCE_THEN 2

/* The iterator's record of a socket. */
struct seen {
	__u16 port;
	__u16 peer_port;
	__u16 family;
	__u8 state;
	__u8 whose;
	__u16 error; /* errno, 0: done */
	__u16 anew; /* it has the rule's control with other options: ... */
	__u32 rule; /* its number, from 1; 0: none */
	__be32 peer[4];
	char was[CC_NAME];
	char now[CC_NAME]; /* "": left as it is */
	struct options had;
};

/* The hashes of the names and paths of a socket's cgroup and of those above it. */
struct cgroups {
	__u64 hash[2 * LEVELS];
};

/* A connection as rules see it. */
struct facts {
	const struct policy *policy;
	struct cgroups cgroups;
	__u64 socket; /* its address */
	__u64 program[2];
	__u64 client;
	__be32 peer[4];
	__u32 from; /* the first rule that counts */
	__u32 found; /* number of the rule, from 1 */
	__u16 family;
	__u16 port;
	bool listens; /* it has no peer */
};

static __always_inline void copy_name(char to[CC_NAME], const char from[CC_NAME])
{
	__builtin_memcpy(to, from, CC_NAME);
}

/* `hash_of` of rule.rs. */
static __always_inline __u64 hashed(__u64 hash, const __u64 name[NAME / 8])
{
#pragma unroll
	for (int i = 0; i < NAME / 8; i++)
		hash = first_random(hash ^ name[i]);
	return hash;
}

/* The address of a socket as a number, which global functions take. */
static __always_inline __u64 address_of(struct tcp_sock *tp)
{
	__u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &tp);
	return address;
}

/* Global, with a number for the socket's address: so the verifier looks at it once, and not for each caller. */
__noinline int note_cgroups(__u64 socket, __u64 secret, struct cgroups *into)
{
	struct sock___policy *sk = (void *)socket;
	struct cgroup *cgroup, *at;
	__u64 name[NAME / 8], path = first_random(secret);
	__u32 ancestors =
		__builtin_preserve_field_info(((struct cgroup *)0)->ancestors, BPF_FIELD_BYTE_OFFSET);
	const char *text;
	int level;

	if (!into)
		return 0;
	cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	level = BPF_CORE_READ(cgroup, level);
#pragma unroll
	for (int i = 0; i < LEVELS; i++) {
		if (i + 1 > level)
			return 0;
		at = NULL;
		bpf_probe_read_kernel(&at, sizeof(at), (void *)cgroup + ancestors + 8 * (i + 1));
		text = BPF_CORE_READ(at, kn, name);
		__builtin_memset(name, 0, sizeof(name));
		bpf_probe_read_kernel_str(name, sizeof(name), text);
		path = hashed(path, name);
		into->hash[2 * i] = hashed(secret, name);
		into->hash[2 * i + 1] = path;
	}
	return 0;
}

/* True if it is of the cgroup with this number, or of one below it. Global: see note_cgroups. */
__noinline int in_cgroup(__u64 socket, __u64 number)
{
	struct sock___policy *sk = (void *)socket;
	struct cgroup *cgroup, *at;
	__u32 ancestors =
		__builtin_preserve_field_info(((struct cgroup *)0)->ancestors, BPF_FIELD_BYTE_OFFSET);
	int level;

	cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	level = BPF_CORE_READ(cgroup, level);
	for (int i = 0; i < DEEPEST; i++) {
		if (i > level)
			return 0;
		at = NULL;
		bpf_probe_read_kernel(&at, sizeof(at), (void *)cgroup + ancestors + 8 * i);
		if (BPF_CORE_READ(at, kn, id) == number)
			return 1;
	}
	return 0;
}

static __always_inline bool matches(const struct rule *r, const struct facts *f)
{
	bool below = false;

	if (r->port && r->port != f->port)
		return false;
	if (f->listens && (r->family || r->per_mille))
		return false;
	if (r->family) {
		if (r->family != f->family)
			return false;
#pragma unroll
		for (int w = 0; w < 4; w++)
			if ((f->peer[w] ^ r->prefix[w]) & r->mask[w])
				return false;
	}
	if (r->program[0] && (r->program[0] != f->program[0] || r->program[1] != f->program[1]))
		return false;
	if (r->cgroup && !r->line) {
		if (!in_cgroup(f->socket, r->cgroup))
			return false;
	} else if (r->cgroup) {
#pragma unroll
		for (int l = 0; l < 2 * LEVELS; l++)
			below |= f->cgroups.hash[l] == r->cgroup;
		if (!below)
			return false;
	}
	return !r->per_mille || in_share(f->client, r->salt, r->per_mille);
}

static long try_rule(__u32 i, void *state)
{
	struct facts *f = state;
	const struct policy *p = f->policy;
	__u32 at = f->from + i;

	if (!p || at >= 2 * RULES)
		return 1;
	if (!matches(&p->rules[at], f))
		return 0;
	f->found = at + 1;
	return 1;
}

/* The policy in force; NULL: none. */
static __always_inline const struct policy *in_force(void)
{
	__u32 first = 0;
	void *one = bpf_map_lookup_elem(&policies, &first);

	return one ? bpf_map_lookup_elem(one, &first) : NULL;
}

static __always_inline void peer_of(struct sock_common *skc, __u16 *family, __be32 peer[4])
{
	__be32 *v6 = skc->skc_v6_daddr.in6_u.u6_addr32;

	*family = skc->skc_family;
	if (*family == AF_INET) {
		peer[0] = skc->skc_daddr;
		return;
	}
	peer[0] = v6[0];
	peer[1] = v6[1];
	peer[2] = v6[2];
	peer[3] = v6[3];
	/* An IPv4 peer of an IPv6 socket is an IPv4 peer. */
	if (!peer[0] && !peer[1] && peer[2] == bpf_htonl(0xffff)) {
		*family = AF_INET;
		peer[0] = peer[3];
		peer[2] = 0;
		peer[3] = 0;
	}
}

static __always_inline void note_facts(struct facts *f, struct tcp_sock *tp, const struct placed *placed)
{
	struct sock_common *skc = (struct sock_common *)tp;

	f->socket = address_of(tp);
	f->port = skc->skc_num;
	f->listens = skc->skc_state == TCP_LISTEN;
	peer_of(skc, &f->family, f->peer);
	f->client = f->family == AF_INET ?
			    client_of_v4(bpf_ntohl(f->peer[0])) :
			    client_of_v6(bpf_ntohl(f->peer[0]), bpf_ntohl(f->peer[1]));
	if (placed) {
		f->program[0] = placed->program[0];
		f->program[1] = placed->program[1];
	}
}

/*
 * The first rule that matches the connection, from 1; 0: none. Those of 'alcc attach' come first, if the
 * connection is new: it has named those that exist itself.
 */
static __always_inline __u32 match(const struct policy *p, struct facts *f, bool is_new)
{
	f->policy = p;
	if (p->by & BY_CGROUP)
		note_cgroups(f->socket, p->secret, &f->cgroups);
	if (is_new) {
		f->from = RULES;
		bpf_loop(p->attached_len, try_rule, f, 0);
		f->from = 0;
	}
	if (!f->found)
		bpf_loop(p->rules_len, try_rule, f, 0);
	return f->found;
}

static __always_inline bool by_route(struct sock___policy *sk)
{
	struct dst_entry *route = BPF_CORE_READ(sk, sk_dst_cache);
	unsigned long metrics;
	__u32 control = 0;

	if (!route)
		return false;
	/* The two lowest bits are flags. */
	metrics = BPF_CORE_READ(route, _metrics) & ~3UL;
	bpf_probe_read_kernel(&control, sizeof(control), (void *)metrics + 4 * (RTAX_CC_ALGO - 1));
	return control;
}

/* The origin, as far as the stack knows it. Global: see note_cgroups. */
__noinline int by_the_stack(__u64 socket)
{
	struct inet_connection_sock___policy *icsk = (void *)socket;
	struct tcp_sock___policy *tp = (void *)socket;

	if (bpf_core_field_exists(tp->is_mptcp) && BPF_CORE_READ(tp, is_mptcp))
		return MPTCP;
	if (by_route((void *)socket) || BPF_CORE_READ_BITFIELD_PROBED(icsk, icsk_ca_dst_locked))
		return ROUTE;
	return BPF_CORE_READ_BITFIELD_PROBED(icsk, icsk_ca_setsockopt) ? OWN : SYSTEM;
}

static __always_inline int whose_is(struct tcp_sock *tp, const struct placed *placed, const char is[CC_NAME])
{
	int whose;

	whose = by_the_stack(address_of(tp));
	if (whose == MPTCP && !(placed && placed->attached))
		return MPTCP;
	if (placed && placed->control[0]) {
		if (!same_name(placed->control, is))
			return SINCE;
		return placed->attached ? ATTACHED : POLICY;
	}
	if (whose == ROUTE)
		return ROUTE;
	/* A control that was given back is set, too. Another one was chosen since. */
	if (placed && placed->back[0])
		return same_name(placed->back, is) ? SYSTEM : SINCE;
	return whose;
}

static __always_inline __u32 one_number(const struct options *o)
{
	return o->delay ^ o->delta ^ o->ratio;
}

static __always_inline void note_choice(struct placed *placed, const struct rule *r, int whose)
{
	copy_name(placed->control, r->control);
	placed->options = one_number(&r->options);
	if (r->line)
		placed->attached = 0;
	else if (!placed->attached || whose == SINCE)
		placed->attached = whose == SYSTEM || whose == POLICY ? FREE : HELD;
}

/* `socket`: what the helpers take; `sk`: what the storage takes. Both are the connection. 0: done. */
#define TAKE(socket, sk, rule, is, whose)                                                      \
	({                                                                                     \
		struct before *had_ = bpf_sk_storage_get(&before, sk, 0,                       \
							 BPF_SK_STORAGE_GET_F_CREATE);         \
		struct placed *now_ = bpf_sk_storage_get(&placed, sk, 0,                       \
							 BPF_SK_STORAGE_GET_F_CREATE);         \
		long failed_ = -12; /* ENOMEM */                                               \
		if (had_ && now_) {                                                            \
			if (!has_options(sk, &(rule)->options)) {                              \
				ask_for_options(sk, &(rule)->options);                         \
				begin_anew(socket, is, (rule)->control);                       \
			}                                                                      \
			failed_ = bpf_setsockopt(socket, SOL_TCP, TCP_CONGESTION,              \
						 (void *)(rule)->control, CC_NAME);            \
		}                                                                              \
		if (!failed_) {                                                                \
			if ((rule)->bound)                                                     \
				unsent_begin(socket);                                          \
			else                                                                   \
				unsent_end(socket);                                            \
			/* The control before the first change. */                             \
			if (!had_->control[0] || whose == SINCE)                               \
				copy_name(had_->control, is);                                  \
			note_choice(now_, rule, whose);                                        \
		}                                                                              \
		failed_;                                                                       \
	})

static __always_inline const struct rule *rule_at(const struct policy *p, __u32 number)
{
	__u64 i = number - 1;

	if (i >= 2 * RULES)
		return NULL;
	/* Else the compiler computes the place from what is not compared. */
	barrier_var(i);
	return (const void *)p->rules + (i & (2 * RULES - 1)) * sizeof(struct rule);
}

static __always_inline const struct rule *wanted_rule(void)
{
	const struct rule *r = (const struct rule *)&wanted.rule;

	/* Else the compiler takes the zeros here for what the loader fills in. */
	barrier_var(r);
	return r;
}

static __always_inline bool is_of_the_processes(struct tcp_sock *tp)
{
	struct socket *socket = ((struct sock *)tp)->sk_socket;
	__u64 inode = 0;

	if (socket)
		bpf_probe_read_kernel(&inode, sizeof(inode),
				      &((struct socket_alloc *)socket)->vfs_inode.i_ino);
	return bpf_map_lookup_elem(&inodes, &inode);
}

static __always_inline void note_program(struct placed *placed, struct task_struct *task)
{
	/* Threads may have names of their own. */
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	placed->program[0] = 0;
	placed->program[1] = 0;
	bpf_probe_read_kernel_str(placed->program, CC_NAME, leader->comm);
}

static __always_inline void watch(struct bpf_sock_ops *ops, struct bpf_sock *sk, struct tcp_sock *tp,
				  __u64 client)
{
	struct watched *w = bpf_sk_storage_get(&watched, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!w)
		return;
	w->cookie = bpf_get_socket_cookie(ops);
	w->client = client;
	w->namespace = namespace_of(tp);
	add_connections(w->namespace, 1);
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* For connections to come: as soon as one is established, whoever opened it. */
SEC("sockops")
int alcc_policy(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	const struct policy *p;
	const struct rule *r;
	struct placed *was;
	struct tcp_sock *tp;
	struct facts f = {};
	char is[CC_NAME] = {};
	int whose;

	if (!sk)
		return 1;
	p = in_force();
	if (!p)
		return 1;
	if (ops->op == BPF_SOCK_OPS_TCP_LISTEN_CB) {
		/* It costs memory: not where nobody asks. */
		if (!(p->by & BY_PROGRAM))
			return 1;
		was = bpf_sk_storage_get(&placed, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (was)
			note_program(was, (struct task_struct *)bpf_get_current_task());
		return 1;
	}
	if (ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    /* The peer of an outgoing connection is not a client. */
	    (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || wanted.watch))
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	was = bpf_sk_storage_get(&placed, sk, 0, 0);
	note_facts(&f, tp, was);
	r = rule_at(p, match(p, &f, true));
	if (!r)
		return 1;
	if (wanted.watch)
		watch(ops, sk, tp, f.client);
	if (r->leave)
		return 1;
	bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, is, CC_NAME);
	whose = whose_is(tp, was, is);
	if (r->line && whose != SYSTEM)
		return 1;
	TAKE(ops, sk, r, is, whose);
	return 1;
}

/*
 * The number of the rule for a socket that the iterator looks for; 0: none; -1: it does not look for this one.
 * Ends before the caller's record begins, because the stack has no room for both.
 */
static __always_inline long rule_of(const struct policy *p, struct tcp_sock *tp, const struct placed *is)
{
	struct facts f = {};

	note_facts(&f, tp, is);
	if (!matches(wanted_rule(), &f) || (wanted.by_inode && !is_of_the_processes(tp)))
		return -1;
	if (f.listens ? wanted.act == APPLY || wanted.act == ROLL_BACK : wanted.listening)
		return -1;
	if (!p || wanted.act == ATTACH || wanted.act == ROLL_BACK || (wanted.act == DETACH && f.listens))
		return 0;
	return match(p, &f, f.listens);
}

SEC("iter/tcp")
int alcc_sockets(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	const struct rule *r = NULL;
	const struct policy *p;
	struct placed *is;
	struct before *had;
	struct tcp_sock *tp;
	struct options *options;
	bool may_take, gives_back, of_older;
	long number;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	is = bpf_sk_storage_get(&placed, (struct sock *)tp, 0, 0);
	p = in_force();
	number = rule_of(p, tp, is);
	if (number < 0)
		return 0;
	struct seen s = { .rule = number };

	bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, s.was, sizeof(s.was));
	s.whose = whose_is(tp, is, s.was);
	had = bpf_sk_storage_get(&before, (struct sock *)tp, 0, 0);
	/* An older version noted no more than that. */
	of_older = had && had->control[0] && !(is && (is->control[0] || is->back[0]));
	if (wanted.act == DETACH && s.whose != ATTACHED && !of_older)
		return 0;
	options = options_of(tp, 0);
	if (options)
		s.had = *options;
	peer_of(skc, &s.family, s.peer);
	s.port = skc->skc_num;
	s.peer_port = bpf_ntohs(skc->skc_dport);
	s.state = skc->skc_state;
	if (p)
		r = rule_at(p, s.rule);
	if (r && r->leave)
		r = NULL;
	/* Else the compiler asks `leave` again, from which Linux 6.1 cannot conclude that r is there. */
	barrier_var(r);
	if (r && is && s.whose == POLICY && same_name(s.was, r->control) &&
	    !has_options((struct sock *)tp, &r->options))
		s.anew = one_number(&s.had) == is->options ? EARLIER : SINCE_THEN;
	may_take = s.whose == SYSTEM || s.whose == POLICY;
	gives_back = s.whose == POLICY;
	if (wanted.act == ATTACH) {
		r = wanted_rule();
		may_take = true;
	} else if (wanted.act == DETACH) {
		may_take = is && is->attached == FREE;
		gives_back = true;
	} else if (wanted.act == ROLL_BACK) {
		gives_back |= of_older;
	}
	if (!may_take)
		r = NULL;
	barrier_var(r);
	if (wanted.act == LOOK) {
		bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
		return 0;
	}
	if (r)
		copy_name(s.now, r->control);
	else if (gives_back && had)
		copy_name(s.now, had->control);
	/* Told before it is done: what does not fit, the kernel forgets, and shows the socket again. */
	if (bpf_seq_write(ctx->meta->seq, &s, sizeof(s)) || !s.now[0])
		return 0;
	if (r) {
		s.error = -TAKE(tp, (struct sock *)tp, r, s.was, s.whose);
	} else if (had) {
		if (end_options((struct sock *)tp))
			begin_anew(tp, s.was, s.now);
		s.error = -bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, s.now, CC_NAME);
		is = bpf_sk_storage_get(&placed, (struct sock *)tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!s.error && is) {
			unsent_end(tp);
			/* A choice of the socket's program is its own again. */
			__builtin_memset(is->back, 0, CC_NAME);
			if (is->attached != HELD)
				copy_name(is->back, s.now);
			__builtin_memset(is->control, 0, CC_NAME);
			is->attached = 0;
			__builtin_memset(had->control, 0, CC_NAME);
		}
	}
	/* A second record of the same socket corrects the first. */
	if (s.error)
		bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	return 0;
}

/* The programs of sockets that exist, in all network namespaces. */
SEC("iter/task_file")
int alcc_programs(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct placed *is;
	struct sock *sk;
	__u16 family;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk)
		return 0;
	family = sk->__sk_common.skc_family;
	if ((family != AF_INET && family != AF_INET6) ||
	    BPF_CORE_READ((struct sock___policy *)sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	is = bpf_sk_storage_get(&placed, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (is && !is->program[0])
		note_program(is, task);
	return 0;
}
