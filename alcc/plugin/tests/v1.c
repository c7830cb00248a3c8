/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A plug-in as it was for ABI 1: what alcc.h said then of plug-ins, and the least that is an algorithm. A host of today refuses it in
 * one line. Not to be brought up to date. */
#include <stdint.h>
#include <stdlib.h>

#define ALCC_PLUGIN_ABI 1

struct alcc_option {
  const char *name;
  const char *default_text;
  const char *help;
  uint32_t kind;
  uint32_t reserved;
  double least;
  double most;
};

struct alcc_value {
  const char *text;
  uint64_t whole;
  double real;
};

struct alcc_create {
  uint32_t size;
  uint32_t value_count;
  const struct alcc_value *values;
  char *error;
  uint64_t error_size;
};

struct alcc_allowance {
  uint32_t size;
  uint32_t ping;
  uint64_t window;
  uint64_t quota;
  uint64_t rate_bps;
  uint64_t burst;
};

struct alcc_packet {
  uint64_t number;
  uint64_t length;
  uint64_t sent_at_ns;
  uint64_t tag;
  uint64_t rtt_ns;
  uint64_t delivered;
  uint64_t delivered_at_ns;
  uint64_t in_flight;
  uint32_t flags;
  uint32_t reserved;
};

struct alcc_rtt {
  uint64_t latest_ns;
  uint64_t smoothed_ns;
  uint64_t variance_ns;
  uint64_t min_ns;
};

struct alcc_ack {
  uint32_t size;
  uint32_t flags;
  const struct alcc_packet *packets;
  uint64_t packet_count;
  uint64_t in_flight_before;
  uint64_t in_flight;
  uint64_t delivered;
  struct alcc_rtt rtt;
  uint64_t rate_bps;
  uint64_t rtt_error_ns;
};

struct alcc_needs {
  uint32_t size;
  uint32_t flags;
  uint64_t feedback_period_ns;
};

struct alcc_path {
  uint32_t size;
  uint32_t reserved;
  uint64_t mss;
  uint64_t rtt_hint_ns;
  uint64_t seed;
};

struct alcc_sent {
  uint32_t size;
  uint32_t flags;
  uint64_t number;
  uint64_t length;
  uint64_t in_flight_before;
};

struct alcc_loss {
  uint32_t size;
  uint32_t new_episode;
  const struct alcc_packet *packets;
  uint64_t packet_count;
  uint64_t in_flight;
  struct alcc_rtt rtt;
};

struct alcc_rto {
  uint32_t size;
  uint32_t backoff;
  struct alcc_packet oldest;
  uint64_t in_flight;
  uint64_t silence_ns;
};

struct alcc_recovery_end {
  uint32_t size;
  uint32_t reserved;
  uint64_t in_flight;
  struct alcc_rtt rtt;
};

struct alcc_backpressure {
  uint32_t size;
  uint32_t blocked;
  uint64_t unsent;
};

struct alcc_algorithm {
  uint32_t abi;
  uint32_t size;
  const char *name;
  const char *summary;
  const struct alcc_option *options;
  uint64_t option_count;
  const char *const *gauge_names;
  uint64_t gauge_count;
  void *(*create)(const struct alcc_create *settings);
  void *(*clone)(const void *state);
  void (*destroy)(void *state);
  void (*allowance)(const void *state, struct alcc_allowance *out);
  void (*on_ack)(void *state, uint64_t now_ns, const struct alcc_ack *ack);
  void (*needs)(const void *state, struct alcc_needs *out);
  void (*on_start)(void *state, uint64_t now_ns, const struct alcc_path *path);
  uint64_t (*on_sent)(void *state, uint64_t now_ns, const struct alcc_sent *sent);
  void (*on_loss)(void *state, uint64_t now_ns, const struct alcc_loss *loss);
  void (*on_rto)(void *state, uint64_t now_ns, const struct alcc_rto *rto);
  void (*on_spurious)(void *state, uint64_t now_ns, uint32_t timeout);
  void (*on_recovery_end)(void *state, uint64_t now_ns, const struct alcc_recovery_end *end);
  void (*on_feedback)(void *state, uint64_t now_ns, const uint8_t *report, uint64_t length);
  void (*on_backpressure)(void *state, uint64_t now_ns, const struct alcc_backpressure *pressure);
  void (*on_idle_restart)(void *state, uint64_t now_ns, uint64_t idle_ns);
  void (*on_path_change)(void *state, uint64_t now_ns, const struct alcc_path *path);
  void (*on_timer)(void *state, uint64_t now_ns);
  uint64_t (*next_timer)(const void *state);
  void (*gauges)(const void *state, double *values);
};

extern __attribute__((visibility("default"))) const struct alcc_algorithm alcc_algorithm_v1;

static void *create(const struct alcc_create *settings)
{
    (void)settings;
    return calloc(1, sizeof(uint64_t));
}

static void *clone(const void *state)
{
    uint64_t *copy = malloc(sizeof *copy);
    if (copy != NULL)
        *copy = *(const uint64_t *)state;
    return copy;
}

static void allowance(const void *state, struct alcc_allowance *out)
{
    out->window = 14480 + *(const uint64_t *)state;
}

static void on_ack(void *state, uint64_t now_ns, const struct alcc_ack *ack)
{
    (void)now_ns;
    *(uint64_t *)state += ack->packet_count;
}

static void on_path_change(void *state, uint64_t now_ns, const struct alcc_path *path)
{
    (void)now_ns;
    *(uint64_t *)state = path->mss;
}

const struct alcc_algorithm alcc_algorithm_v1 = {
    .abi = ALCC_PLUGIN_ABI,
    .size = sizeof(struct alcc_algorithm),
    .name = "first",
    .summary = "a plug-in of the first version",
    .create = create,
    .clone = clone,
    .destroy = free,
    .allowance = allowance,
    .on_ack = on_ack,
    .on_path_change = on_path_change,
};
