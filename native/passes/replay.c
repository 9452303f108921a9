/* Sweeps over a dependency graph: earliest and latest time of each node, gains, and critical paths. They
 * keep the complete graph in memory, with at least 48 bytes per edge. */
#include "sweep.h"

#include <stdlib.h>

#define NEVER INT64_MAX

/* Edge with its weight in ns, the recorded time of its target in ns, and whether the target is an end of the
 * graph. */
typedef struct {
    int64_t number, source, target, weight, recorded;
    bool is_end;
} Edge;

#define WEIGHTS 5

/* The group of an edge is the group of its target node, or NOTHING; in RUN_STEPS it is the trace. */
typedef struct {
    int64_t group, weights[WEIGHTS];
} WeightedEdge;

typedef struct {
    int64_t bound, steps, host;
} Bound;

typedef struct {
    Buffer edges, weighted, bounds; /* Edge, WeightedEdge, Bound */
    int64_t target_ns;
} Replay;

static size_t edge_count(const Replay *replay)
{
    return replay->edges.size / sizeof(Edge);
}

static bool has_no_room(Sweep *sweep)
{
    return sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static bool read_edge(Sweep *sweep, void *state, bool is_new_partition)
{
    (void)is_new_partition;
    Edge edge = {number_of(sweep, 0), number_of(sweep, 1), number_of(sweep, 2),
                 number_of(sweep, 3), number_of(sweep, 4), number_of(sweep, 5) == 1};
    return buffer_add(&((Replay *)state)->edges, &edge, sizeof edge)
        || has_no_room(sweep);
}

static void free_replay(void *state)
{
    Replay *replay = state;
    buffer_free(&replay->edges);
    buffer_free(&replay->weighted);
    buffer_free(&replay->bounds);
}

/* Nodes by index: their number minus the least number. */
typedef struct {
    int64_t least;
    size_t count, done;
    size_t *first_out, *outgoing; /* edges by source */
    int64_t *missing;             /* number of incoming edges not yet visited */
    size_t *order, *place;        /* nodes in topological order; position of each node in it */
    int64_t *at, *latest, *recorded, *binding;
    bool *exists;
    size_t *stack, stack_size;
} Nodes;

static void free_nodes(Nodes *nodes)
{
    void *all[] = {nodes->first_out, nodes->outgoing, nodes->missing,  nodes->order,
                   nodes->place,     nodes->at,       nodes->latest,   nodes->recorded,
                   nodes->binding,   nodes->exists, nodes->stack};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Return the size of an array indexed by `count` numbers from `least` to `most`, or 0 if they have too many
 * holes. */
static size_t room_between(int64_t least, int64_t most, size_t count)
{
    uint64_t span = (uint64_t)most - (uint64_t)least;
    return span / 64 > count + 1024 ? 0 : (size_t)span + 1;
}

static bool make_nodes(Nodes *nodes, const Edge *edges, size_t count)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        int64_t low = edges[i].source < edges[i].target ? edges[i].source : edges[i].target;
        int64_t high = edges[i].source < edges[i].target ? edges[i].target : edges[i].source;
        least = low < least ? low : least;
        most = high > most ? high : most;
    }
    size_t room = room_between(least, most, count);
    if (room == 0)
        return false;
    nodes->least = least;
    nodes->count = room;
    nodes->first_out = calloc(room + 2, sizeof(size_t));
    nodes->outgoing = malloc(count * sizeof(size_t));
    nodes->missing = calloc(room, sizeof(int64_t));
    nodes->order = malloc(room * sizeof(size_t));
    nodes->place = malloc(room * sizeof(size_t));
    nodes->at = calloc(room, sizeof(int64_t));
    nodes->latest = malloc(room * sizeof(int64_t));
    nodes->recorded = calloc(room, sizeof(int64_t));
    nodes->binding = malloc(room * sizeof(int64_t));
    nodes->exists = calloc(room, sizeof(bool));
    nodes->stack = malloc(room * sizeof(size_t));
    if (nodes->first_out == NULL || nodes->outgoing == NULL || nodes->missing == NULL
        || nodes->order == NULL || nodes->place == NULL || nodes->at == NULL
        || nodes->latest == NULL || nodes->recorded == NULL || nodes->binding == NULL
        || nodes->exists == NULL || nodes->stack == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t source = (size_t)(edges[i].source - least);
        size_t target = (size_t)(edges[i].target - least);
        nodes->first_out[source + 2]++;
        nodes->missing[target]++;
        nodes->exists[source] = nodes->exists[target] = true;
        nodes->recorded[target] = edges[i].recorded;
    }
    for (size_t i = 2; i < room + 2; i++)
        nodes->first_out[i] += nodes->first_out[i - 1];
    for (size_t i = 0; i < count; i++)
        nodes->outgoing[nodes->first_out[edges[i].source - least + 1]++] = i;
    for (size_t i = 0; i < room; i++) {
        nodes->place[i] = SIZE_MAX;
        nodes->latest[i] = NEVER;
        nodes->binding[i] = NOTHING;
    }
    return true;
}

static void pop_node(Nodes *nodes, const Edge *edges, size_t node)
{
    nodes->place[node] = nodes->done;
    nodes->order[nodes->done++] = node;
    for (size_t i = nodes->first_out[node]; i < nodes->first_out[node + 1]; i++) {
        const Edge *edge = &edges[nodes->outgoing[i]];
        size_t target = (size_t)(edge->target - nodes->least);
        if (nodes->place[target] != SIZE_MAX)
            continue; /* in a cycle */
        int64_t at = bounded_sum(nodes->at[node], edge->weight);
        bool is_first = nodes->binding[target] == NOTHING;
        if (is_first || at > nodes->at[target]
            || (at == nodes->at[target] && edge->number < nodes->binding[target])) {
            nodes->at[target] = at;
            nodes->binding[target] = edge->number;
        }
        if (--nodes->missing[target] == 0)
            nodes->stack[nodes->stack_size++] = target;
    }
}

/* Break a cycle: continue with the unvisited node that has the earliest recorded time. */
static bool break_cycle(Nodes *nodes)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->exists[i] && nodes->place[i] == SIZE_MAX
            && (first == SIZE_MAX || nodes->recorded[i] < nodes->recorded[first]))
            first = i;
    if (first == SIZE_MAX)
        return false;
    nodes->stack[nodes->stack_size++] = first;
    return true;
}

static void find_latest(Nodes *nodes, const Edge *edges, size_t count)
{
    int64_t end = INT64_MIN;
    for (size_t i = 0; i < count; i++)
        if (edges[i].is_end && nodes->at[edges[i].target - nodes->least] > end)
            end = nodes->at[edges[i].target - nodes->least];
    for (size_t i = 0; i < count; i++)
        if (edges[i].is_end)
            nodes->latest[edges[i].target - nodes->least] = end;
    for (size_t i = nodes->done; i-- > 0;) {
        size_t node = nodes->order[i];
        for (size_t j = nodes->first_out[node]; j < nodes->first_out[node + 1]; j++) {
            const Edge *edge = &edges[nodes->outgoing[j]];
            size_t target = (size_t)(edge->target - nodes->least);
            if (nodes->latest[target] != NEVER && nodes->place[target] > i
                && bounded_difference(nodes->latest[target], edge->weight) < nodes->latest[node])
                nodes->latest[node] = bounded_difference(nodes->latest[target], edge->weight);
        }
    }
}

static bool replay_all(Nodes *nodes, const Edge *edges, size_t count)
{
    if (!make_nodes(nodes, edges, count))
        return false;
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->exists[i] && nodes->missing[i] == 0)
            nodes->stack[nodes->stack_size++] = i;
    while (nodes->stack_size > 0 || break_cycle(nodes))
        pop_node(nodes, edges, nodes->stack[--nodes->stack_size]);
    return true;
}

static bool replay_edges(Sweep *sweep, void *state)
{
    Replay *replay = state;
    const Edge *edges = (const Edge *)replay->edges.data;
    size_t count = edge_count(replay);
    Nodes nodes = {0};
    if (count == 0)
        return true;
    bool is_good = replay_all(&nodes, edges, count);
    if (!is_good)
        has_no_room(sweep);
    if (is_good)
        find_latest(&nodes, edges, count);
    for (size_t i = 0; is_good && i < nodes.count; i++)
        if (nodes.exists[i])
            is_good = emit_number(sweep, (int64_t)i + nodes.least)
                && emit_number(sweep, nodes.at[i])
                && emit_number(sweep, nodes.latest[i] == NEVER ? NOTHING : nodes.latest[i])
                && emit_number(sweep, nodes.binding[i]);
    free_nodes(&nodes);
    return is_good;
}

const SweepKind REPLAY = {
    .name = "replay",
    .input_types = "llllll",
    .output_types = "llll",
    .names = {"node", "at_ns", "latest_ns", "edge_id"},
    .state_bytes = sizeof(Replay),
    .read_row = read_edge,
    .finish = replay_edges,
    .free = free_replay,
};

/* Gains: how much earlier the graph ends without the work of a group. Rows after the edges have no source
 * and assign an edge to a group. */

static bool read_member(Sweep *sweep, void *state, bool is_new_partition)
{
    (void)is_new_partition;
    int64_t group = number_of(sweep, 6);
    Edge edge = {number_of(sweep, 0), number_of(sweep, 1), number_of(sweep, 2),
                 number_of(sweep, 3), number_of(sweep, 4), number_of(sweep, 5) == 1};
    if (group != NOTHING)
        edge = (Edge){.number = edge.number, .source = NOTHING, .target = group};
    return buffer_add(&((Replay *)state)->edges, &edge, sizeof edge)
        || has_no_room(sweep);
}

/* Replay in topological order with weight 0 for the removed edges. Return the time of the last end. */
static int64_t end_without(const Nodes *nodes, const Edge *edges, size_t count,
                           const bool *is_removed, int64_t *at)
{
    int64_t end = INT64_MIN;
    for (size_t i = 0; i < nodes->done; i++)
        at[nodes->order[i]] = nodes->binding[nodes->order[i]] == NOTHING ? 0 : INT64_MIN;
    for (size_t i = 0; i < nodes->done; i++) {
        size_t node = nodes->order[i];
        for (size_t j = nodes->first_out[node]; j < nodes->first_out[node + 1]; j++) {
            const Edge *edge = &edges[nodes->outgoing[j]];
            size_t target = (size_t)(edge->target - nodes->least);
            int64_t time_ns = bounded_sum(at[node], is_removed[nodes->outgoing[j]] ? 0 : edge->weight);
            if (nodes->place[target] > i && time_ns > at[target])
                at[target] = time_ns;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (edges[i].is_end && at[edges[i].target - nodes->least] > end)
            end = at[edges[i].target - nodes->least];
    return end;
}

static bool emit_gains(Sweep *sweep, void *state)
{
    Replay *replay = state;
    const Edge *edges = (const Edge *)replay->edges.data;
    size_t all = edge_count(replay), count = 0;
    while (count < all && edges[count].source != NOTHING)
        count++;
    if (count == 0)
        return true;
    Nodes nodes = {0};
    bool *is_removed = calloc(count, sizeof *is_removed);
    bool is_good = is_removed != NULL && replay_all(&nodes, edges, count);
    if (!is_good)
        has_no_room(sweep);
    int64_t end = is_good ? end_without(&nodes, edges, count, is_removed, nodes.at) : 0;
    for (size_t i = count; is_good && i < all;) {
        size_t first = i;
        for (; is_good && i < all && edges[i].target == edges[first].target; i++)
            if ((uint64_t)edges[i].number < count)
                is_removed[edges[i].number] = true;
            else
                is_good = sweep_fail(sweep, "Invalid Input Error: a group of an unknown edge");
        if (!is_good)
            break;
        int64_t without = end_without(&nodes, edges, count, is_removed, nodes.at);
        is_good = emit_number(sweep, edges[first].target)
            && emit_number(sweep, bounded_difference(end, without));
        for (size_t j = first; j < i; j++)
            is_removed[edges[j].number] = false;
    }
    free_nodes(&nodes);
    free(is_removed);
    return is_good;
}

const SweepKind GAINS = {
    .name = "gains",
    .input_types = "lllllll",
    .output_types = "ll",
    .names = {"group_id", "gain_ns"},
    .state_bytes = sizeof(Replay),
    .read_row = read_member,
    .finish = emit_gains,
    .free = free_replay,
};

/* Time of the first node of group 0, and of the last node of other groups, for several weights of the
 * same edges. */

static bool read_weighted(Sweep *sweep, void *state, bool is_new_partition)
{
    (void)is_new_partition;
    Replay *replay = state;
    Edge edge = {(int64_t)edge_count(replay), number_of(sweep, 0), number_of(sweep, 1),
                 number_of(sweep, 4), number_of(sweep, 2), false};
    WeightedEdge weighted = {.group = number_of(sweep, 3)};
    for (int i = 0; i < WEIGHTS; i++)
        weighted.weights[i] = number_of(sweep, 4 + i);
    return (buffer_add(&replay->edges, &edge, sizeof edge)
            && buffer_add(&replay->weighted, &weighted, sizeof weighted))
        || has_no_room(sweep);
}

/* Replay in topological order with all weights at once. */
static void replay_weights(const Nodes *nodes, const Edge *edges, const WeightedEdge *weighted,
                           int64_t *at)
{
    for (size_t i = 0; i < nodes->done; i++)
        for (size_t j = 0; j < WEIGHTS; j++)
            at[nodes->order[i] * WEIGHTS + j]
                = nodes->binding[nodes->order[i]] == NOTHING ? 0 : INT64_MIN;
    for (size_t i = 0; i < nodes->done; i++) {
        size_t node = nodes->order[i];
        for (size_t j = nodes->first_out[node]; j < nodes->first_out[node + 1]; j++) {
            const WeightedEdge *edge = &weighted[nodes->outgoing[j]];
            size_t target = (size_t)(edges[nodes->outgoing[j]].target - nodes->least);
            if (nodes->place[target] <= i)
                continue; /* in a cycle */
            for (size_t k = 0; k < WEIGHTS; k++) {
                int64_t time_ns = bounded_sum(at[node * WEIGHTS + k], edge->weights[k]);
                if (time_ns > at[target * WEIGHTS + k])
                    at[target * WEIGHTS + k] = time_ns;
            }
        }
    }
}

/* Count the groups, whose numbers start at 0 and have few holes. */
static bool count_groups(Sweep *sweep, const Replay *replay, size_t *groups)
{
    const WeightedEdge *weighted = (const WeightedEdge *)replay->weighted.data;
    size_t count = edge_count(replay);
    int64_t last = -1;
    for (size_t i = 0; i < count; i++) {
        if (weighted[i].group < 0 && weighted[i].group != NOTHING)
            return sweep_fail(sweep, "Invalid Input Error: a group below 0");
        last = weighted[i].group > last ? weighted[i].group : last;
    }
    *groups = last < 0 ? 0 : room_between(0, last, count);
    return last < 0 || *groups > 0
        || sweep_fail(sweep, "Invalid Input Error: numbers of groups with holes");
}

static bool emit_group_times(Sweep *sweep, void *state)
{
    Replay *replay = state;
    const Edge *edges = (const Edge *)replay->edges.data;
    const WeightedEdge *weighted = (const WeightedEdge *)replay->weighted.data;
    size_t count = edge_count(replay), groups;
    if (!count_groups(sweep, replay, &groups))
        return false;
    if (groups == 0)
        return true;
    Nodes nodes = {0};
    int64_t *results = malloc(groups * sizeof weighted->weights), *at = NULL;
    if (results != NULL && replay_all(&nodes, edges, count))
        at = malloc(nodes.count * sizeof weighted->weights);
    bool is_good = at != NULL;
    if (is_good)
        replay_weights(&nodes, edges, weighted, at);
    else
        has_no_room(sweep);
    for (size_t i = 0; is_good && i < groups * WEIGHTS; i++)
        results[i] = NOTHING;
    for (size_t i = 0; is_good && i < count; i++) {
        if (weighted[i].group == NOTHING)
            continue;
        const int64_t *time_ns = &at[(size_t)(edges[i].target - nodes.least) * WEIGHTS];
        int64_t *one = &results[(size_t)weighted[i].group * WEIGHTS];
        for (size_t j = 0; j < WEIGHTS; j++)
            if (one[j] == NOTHING || (weighted[i].group == 0 ? time_ns[j] < one[j] : time_ns[j] > one[j]))
                one[j] = time_ns[j];
    }
    for (size_t i = 0; is_good && i < groups; i++) {
        is_good = emit_number(sweep, (int64_t)i);
        for (size_t j = 0; is_good && j < WEIGHTS; j++)
            is_good = emit_number(sweep, results[i * WEIGHTS + j]);
    }
    free_nodes(&nodes);
    free(results);
    free(at);
    return is_good;
}

const SweepKind MOMENTS = {
    .name = "moments",
    .input_types = "lllllllll",
    .output_types = "llllll",
    .names = {"instant", "ns_0", "ns_1", "ns_2", "ns_3", "ns_4"},
    .state_bytes = sizeof(Replay),
    .read_row = read_weighted,
    .finish = emit_group_times,
    .free = free_replay,
};

/* Step time of each trace as recorded and in four replays, and the host slowdown factor at which the mean
 * step of all traces takes the target time. A step is the mean of at least ten consecutive steps. A
 * shorter recording is extended to ten steps, with the mean interval between its step ends.
 * prediction/predicting.py has the same formula for replays under changes. */

#define MIN_FACTOR 0.2
#define MAX_FACTOR 4.0
#define MILLION 1000000
#define MIN_STEPS 10

enum { BEGIN, FIRST_END, LAST_END, BOUNDS };

static bool read_step_edge(Sweep *sweep, void *state, bool is_new_partition)
{
    (void)is_new_partition;
    Replay *replay = state;
    Edge edge = {(int64_t)edge_count(replay), number_of(sweep, 0), number_of(sweep, 1),
                 number_of(sweep, 6), number_of(sweep, 2), false};
    WeightedEdge weighted = {.group = number_of(sweep, 3)};
    for (int i = 0; i < 4; i++)
        weighted.weights[i] = number_of(sweep, 6 + i);
    Bound bound = {number_of(sweep, 4), number_of(sweep, 5), number_of(sweep, 10)};
    replay->target_ns = number_of(sweep, 11);
    return (buffer_add(&replay->edges, &edge, sizeof edge)
            && buffer_add(&replay->weighted, &weighted, sizeof weighted)
            && buffer_add(&replay->bounds, &bound, sizeof bound))
        || has_no_room(sweep);
}

/* Clamp to 64 bits: times from SQL can have any value. */
static int64_t clamped(double ns)
{
    return ns >= 9e18 ? INT64_MAX : ns <= -9e18 ? INT64_MIN : (int64_t)ns;
}

/* Compute the step time, ns, of each trace for each weight, and then the mean of all traces; NOTHING for a
 * trace without steps. If `is_recorded`, recorded times replace the times of the last weight. */
static void find_steps(const Nodes *nodes, const Edge *edges, const Replay *replay, bool is_recorded,
                       int64_t *at, int64_t *ends, int64_t *results, size_t traces)
{
    const WeightedEdge *weighted = (const WeightedEdge *)replay->weighted.data;
    const Bound *bounds = (const Bound *)replay->bounds.data;
    replay_weights(nodes, edges, weighted, at);
    for (size_t i = 0; i < BOUNDS * traces * WEIGHTS; i++)
        ends[i] = NOTHING;
    for (size_t i = 0; i < (traces + 1) * WEIGHTS; i++)
        results[i] = NOTHING;
    size_t count = edge_count(replay);
    for (size_t i = 0; i < count; i++) {
        if (weighted[i].group == NOTHING)
            continue;
        const int64_t *time_ns = &at[(size_t)(edges[i].target - nodes->least) * WEIGHTS];
        int64_t *of_trace = &ends[(size_t)weighted[i].group * BOUNDS * WEIGHTS];
        for (size_t j = 0; j < WEIGHTS; j++) {
            int64_t came = is_recorded && j == WEIGHTS - 1 ? edges[i].recorded : time_ns[j];
            for (int64_t bound = BEGIN; bound < BOUNDS; bound++) {
                int64_t *last = &of_trace[(size_t)bound * WEIGHTS + j];
                bool counts = bound == bounds[i].bound
                           || (bound == LAST_END && bounds[i].bound == FIRST_END);
                *last = counts && came > *last ? came : *last;
            }
        }
        /* Temporarily the number of steps. */
        results[(size_t)weighted[i].group * WEIGHTS] = bounds[i].steps > 1 ? bounds[i].steps : 1;
    }
    double sums[WEIGHTS] = {0};
    size_t with_steps = 0;
    for (size_t i = 0; i < traces; i++) {
        int64_t *step = &results[i * WEIGHTS], steps_of = step[0];
        step[0] = NOTHING;
        const int64_t *begin = &ends[i * BOUNDS * WEIGHTS];
        const int64_t *first_end = begin + FIRST_END * WEIGHTS, *end = begin + LAST_END * WEIGHTS;
        if (*begin == NOTHING || *first_end == NOTHING)
            continue;
        with_steps++;
        for (size_t j = 0; j < WEIGHTS; j++) {
            double step_ns = (double)bounded_difference(end[j], begin[j]), n = (double)steps_of;
            if (steps_of > 1 && steps_of < MIN_STEPS) {
                double apart = (double)bounded_difference(end[j], first_end[j]) / (n - 1);
                step_ns += (MIN_STEPS - n) * apart;
                n = MIN_STEPS;
            }
            step_ns /= n;
            step[j] = clamped(step_ns);
            sums[j] += step_ns;
        }
    }
    for (size_t j = 0; j < WEIGHTS && with_steps > 0; j++)
        results[traces * WEIGHTS + j] = clamped(sums[j] / (double)with_steps);
}

/* Find the host slowdown factor at which the mean step takes the target time. Return 1 if the step takes
 * that long even at the smallest factor, because of the device. `plain` has room for one weight per edge. */
static double find_factor(const Nodes *nodes, const Edge *edges, Replay *replay, int64_t *plain,
                          int64_t *at, int64_t *ends, int64_t *results, size_t traces)
{
    WeightedEdge *weighted = (WeightedEdge *)replay->weighted.data;
    const Bound *bounds = (const Bound *)replay->bounds.data;
    const int64_t *mean = &results[traces * WEIGHTS];
    double target_ns = (double)replay->target_ns;
    double low = MIN_FACTOR, high = MAX_FACTOR, low_step = 0, high_step = 0;
    size_t count = edge_count(replay);
    for (size_t i = 0; i < count; i++)
        plain[i] = weighted[i].weights[1];
    for (int round = 0; round < 6; round++) {
        double factors[WEIGHTS];
        for (size_t j = 0; j < WEIGHTS; j++)
            factors[j] = low + (high - low) * (double)j / (WEIGHTS - 1);
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < WEIGHTS; j++)
                weighted[i].weights[j]
                    = bounded_sum(plain[i], clamped((factors[j] - 1) * (double)bounds[i].host));
        find_steps(nodes, edges, replay, false, at, ends, results, traces);
        if (round == 0 && (double)mean[0] >= 0.995 * target_ns)
            return 1;
        if (round == 0 && (double)mean[WEIGHTS - 1] < target_ns)
            return MAX_FACTOR;
        size_t above = 1;
        while (above < WEIGHTS - 1 && (double)mean[above] < target_ns)
            above++;
        low = factors[above - 1], high = factors[above];
        low_step = (double)mean[above - 1], high_step = (double)mean[above];
    }
    return high_step > low_step
             ? low + (high - low) * (target_ns - low_step) / (high_step - low_step)
             : high;
}

static bool emit_steps(Sweep *sweep, void *state)
{
    Replay *replay = state;
    const Edge *edges = (const Edge *)replay->edges.data;
    size_t count = edge_count(replay), traces;
    if (!count_groups(sweep, replay, &traces))
        return false;
    if (traces == 0)
        return true;
    Nodes nodes = {0};
    int64_t *at = NULL, *ends = malloc(BOUNDS * traces * WEIGHTS * sizeof *ends);
    int64_t *results = malloc((traces + 1) * WEIGHTS * sizeof *results);
    int64_t *reported = malloc(traces * WEIGHTS * sizeof *reported);
    int64_t *plain = malloc(count * sizeof *plain);
    if (ends != NULL && results != NULL && reported != NULL && plain != NULL
        && replay_all(&nodes, edges, count))
        at = malloc(nodes.count * WEIGHTS * sizeof *at);
    bool is_good = at != NULL;
    if (is_good) {
        int64_t factor = NOTHING;
        find_steps(&nodes, edges, replay, true, at, ends, results, traces);
        memcpy(reported, results, traces * WEIGHTS * sizeof *reported);
        if (replay->target_ns != NOTHING)
            factor = (int64_t)(find_factor(&nodes, edges, replay, plain, at, ends, results, traces)
                               * MILLION);
        for (size_t i = 0; is_good && i < traces; i++) {
            if (reported[i * WEIGHTS] == NOTHING)
                continue;
            is_good = emit_number(sweep, (int64_t)i);
            for (size_t j = 0; is_good && j < WEIGHTS; j++)
                is_good = emit_number(sweep, reported[i * WEIGHTS + j]);
            is_good = is_good && emit_number(sweep, factor);
        }
    } else
        has_no_room(sweep);
    free_nodes(&nodes);
    free(at);
    free(ends);
    free(results);
    free(reported);
    free(plain);
    return is_good;
}

const SweepKind RUN_STEPS = {
    .name = "run_steps",
    .input_types = "llllllllllll",
    .output_types = "lllllll",
    .names = {"trace_id", "replayed_ns", "unprofiled_ns", "low_ns", "high_ns", "recorded_ns",
              "factor_millionths"},
    .state_bytes = sizeof(Replay),
    .read_row = read_step_edge,
    .finish = emit_steps,
    .free = free_replay,
};

/* Critical paths, followed backward from the ends. The input rows are the binding edges. The weight column
 * contains the trace whose last edge the row is, or NULL. */

static bool read_binding(Sweep *sweep, void *state, bool is_new_partition)
{
    (void)is_new_partition;
    Edge edge = {number_of(sweep, 0), number_of(sweep, 1), number_of(sweep, 2),
                 number_of(sweep, 3), 0, false};
    return buffer_add(&((Replay *)state)->edges, &edge, sizeof edge)
        || has_no_room(sweep);
}

static bool emit_path(Sweep *sweep, void *state)
{
    const Edge *edges = (const Edge *)((Replay *)state)->edges.data;
    size_t count = edge_count(state);
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        least = edges[i].target < least ? edges[i].target : least;
        most = edges[i].target > most ? edges[i].target : most;
    }
    if (count == 0)
        return true;
    size_t room = room_between(least, most, count);
    size_t *into = room == 0 ? NULL : malloc(room * sizeof *into);
    if (into == NULL)
        return has_no_room(sweep);
    for (size_t i = 0; i < room; i++)
        into[i] = SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        into[edges[i].target - least] = i;
    bool is_good = true;
    for (size_t i = 0; is_good && i < count; i++) {
        if (edges[i].weight == NOTHING)
            continue;
        size_t at = i;
        for (int64_t place = 0; is_good && at != SIZE_MAX && place < (int64_t)count; place++) {
            is_good = emit_number(sweep, edges[i].weight) && emit_number(sweep, place)
                && emit_number(sweep, edges[at].number);
            int64_t source = edges[at].source;
            at = source < least || source > most ? SIZE_MAX : into[source - least];
        }
    }
    free(into);
    return is_good;
}

const SweepKind PATH = {
    .name = "path",
    .input_types = "llll",
    .output_types = "lll",
    .names = {"trace_id", "place", "edge_id"},
    .state_bytes = sizeof(Replay),
    .read_row = read_binding,
    .finish = emit_path,
    .free = free_replay,
};
