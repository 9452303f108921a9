/* The sweeps over a dependency graph: when each node comes at the earliest and at the latest, and
 * the way back from the end over the edges that bind. Both hold the whole graph: 40 bytes for each edge. */
#include "sweep.h"

#include <stdlib.h>

#define NEVER INT64_MAX

/* An edge has a number, what it leaves and enters, how much lies between, when the latter was
 * recorded, and whether that is an end. */
typedef struct {
    int64_t number, source, target, weight, recorded;
    bool is_end;
} Edge;

typedef struct {
    Buffer edges;
} Replay;

static size_t edge_count(const Replay *replay)
{
    return replay->edges.size / sizeof(Edge);
}

static bool take_edge(Sweep *sweep, void *state, bool is_new_part)
{
    (void)is_new_part;
    Edge edge = {number_of(sweep, 0), number_of(sweep, 1), number_of(sweep, 2),
                 number_of(sweep, 3), number_of(sweep, 4), number_of(sweep, 5) == 1};
    return buffer_add(&((Replay *)state)->edges, &edge, sizeof edge)
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static void free_replay(void *state)
{
    buffer_free(&((Replay *)state)->edges);
}

/* Nodes by their place: their number less the least one. */
typedef struct {
    int64_t least;
    size_t count, done;
    size_t *first_out, *outgoing; /* edges by what they leave */
    int64_t *missing;             /* edges that have not come */
    size_t *order, *place;        /* in which nodes come; where each did */
    int64_t *at, *latest, *recorded, *binding;
    bool *is_there;
    size_t *stack, stack_size;
} Nodes;

static void free_nodes(Nodes *nodes)
{
    void *all[] = {nodes->first_out, nodes->outgoing, nodes->missing,  nodes->order,
                   nodes->place,     nodes->at,       nodes->latest,   nodes->recorded,
                   nodes->binding,   nodes->is_there, nodes->stack};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Numbers are meant to be nearly without holes: return how many there are room for, 0 if they are not. */
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
    nodes->is_there = calloc(room, sizeof(bool));
    nodes->stack = malloc(room * sizeof(size_t));
    if (nodes->first_out == NULL || nodes->outgoing == NULL || nodes->missing == NULL
        || nodes->order == NULL || nodes->place == NULL || nodes->at == NULL
        || nodes->latest == NULL || nodes->recorded == NULL || nodes->binding == NULL
        || nodes->is_there == NULL || nodes->stack == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t source = (size_t)(edges[i].source - least);
        size_t target = (size_t)(edges[i].target - least);
        nodes->first_out[source + 2]++;
        nodes->missing[target]++;
        nodes->is_there[source] = nodes->is_there[target] = true;
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
            continue; /* of a circle */
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

/* Where edges run in a circle, the node of it that was recorded first comes first. */
static bool break_circle(Nodes *nodes)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->is_there[i] && nodes->place[i] == SIZE_MAX
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
        if (nodes->is_there[i] && nodes->missing[i] == 0)
            nodes->stack[nodes->stack_size++] = i;
    while (nodes->stack_size > 0 || break_circle(nodes))
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
        sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
    if (is_good)
        find_latest(&nodes, edges, count);
    for (size_t i = 0; is_good && i < nodes.count; i++)
        if (nodes.is_there[i])
            is_good = give_number(sweep, (int64_t)i + nodes.least)
                && give_number(sweep, nodes.at[i])
                && give_number(sweep, nodes.latest[i] == NEVER ? NOTHING : nodes.latest[i])
                && give_number(sweep, nodes.binding[i]);
    free_nodes(&nodes);
    return is_good;
}

const SweepKind REPLAY = {
    .name = "replay",
    .takes = "llllll",
    .gives = "llll",
    .names = {"node", "at_ns", "latest_ns", "edge_id"},
    .state_bytes = sizeof(Replay),
    .take = take_edge,
    .end = replay_edges,
    .free = free_replay,
};

/* By how much the end comes earlier without the work of a group. Behind the edges come rows that have
 * no source, but the number of a group of which the edge is. */

static bool take_member(Sweep *sweep, void *state, bool is_new_part)
{
    (void)is_new_part;
    int64_t group = number_of(sweep, 6);
    Edge edge = {number_of(sweep, 0), number_of(sweep, 1), number_of(sweep, 2),
                 number_of(sweep, 3), number_of(sweep, 4), number_of(sweep, 5) == 1};
    if (group != NOTHING)
        edge = (Edge){.number = edge.number, .source = NOTHING, .target = group};
    return buffer_add(&((Replay *)state)->edges, &edge, sizeof edge)
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

/* Replay in the order that is known; return when the last end comes. */
static int64_t end_without(const Nodes *nodes, const Edge *edges, size_t count,
                           const bool *is_gone, int64_t *at)
{
    int64_t end = INT64_MIN;
    for (size_t i = 0; i < nodes->done; i++)
        at[nodes->order[i]] = nodes->binding[nodes->order[i]] == NOTHING ? 0 : INT64_MIN;
    for (size_t i = 0; i < nodes->done; i++) {
        size_t node = nodes->order[i];
        for (size_t j = nodes->first_out[node]; j < nodes->first_out[node + 1]; j++) {
            const Edge *edge = &edges[nodes->outgoing[j]];
            size_t target = (size_t)(edge->target - nodes->least);
            int64_t moment = bounded_sum(at[node], is_gone[nodes->outgoing[j]] ? 0 : edge->weight);
            if (nodes->place[target] > i && moment > at[target])
                at[target] = moment;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (edges[i].is_end && at[edges[i].target - nodes->least] > end)
            end = at[edges[i].target - nodes->least];
    return end;
}

static bool find_gains(Sweep *sweep, void *state)
{
    Replay *replay = state;
    const Edge *edges = (const Edge *)replay->edges.data;
    size_t all = edge_count(replay), count = 0;
    while (count < all && edges[count].source != NOTHING)
        count++;
    if (count == 0)
        return true;
    Nodes nodes = {0};
    bool *is_gone = calloc(count, sizeof *is_gone);
    bool is_good = is_gone != NULL && replay_all(&nodes, edges, count);
    if (!is_good)
        sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
    int64_t end = is_good ? end_without(&nodes, edges, count, is_gone, nodes.at) : 0;
    for (size_t i = count; is_good && i < all;) {
        size_t first = i;
        for (; is_good && i < all && edges[i].target == edges[first].target; i++)
            if ((uint64_t)edges[i].number < count)
                is_gone[edges[i].number] = true;
            else
                is_good = sweep_fail(sweep, "Invalid Input Error: a group of an edge that is none");
        if (!is_good)
            break;
        int64_t without = end_without(&nodes, edges, count, is_gone, nodes.at);
        is_good = give_number(sweep, edges[first].target)
            && give_number(sweep, bounded_difference(end, without));
        for (size_t j = first; j < i; j++)
            is_gone[edges[j].number] = false;
    }
    free_nodes(&nodes);
    free(is_gone);
    return is_good;
}

const SweepKind GAINS = {
    .name = "gains",
    .takes = "lllllll",
    .gives = "ll",
    .names = {"group_id", "gain_ns"},
    .state_bytes = sizeof(Replay),
    .take = take_member,
    .end = find_gains,
    .free = free_replay,
};

/* When the first or the last node of each group comes, for several weights of the same edges: a
 * replay whose nodes nobody reads. Of group 0 it is the first, of others the last. */

#define WEIGHTS 5

typedef struct {
    int64_t group, weights[WEIGHTS];
} Weighed;

typedef struct {
    Replay replay;
    Buffer weighed;
} Moments;

static bool take_weighed(Sweep *sweep, void *state, bool is_new_part)
{
    (void)is_new_part;
    Moments *moments = state;
    Edge edge = {(int64_t)edge_count(&moments->replay), number_of(sweep, 0), number_of(sweep, 1),
                 number_of(sweep, 4), number_of(sweep, 2), false};
    Weighed weighed = {.group = number_of(sweep, 3)};
    for (int i = 0; i < WEIGHTS; i++)
        weighed.weights[i] = number_of(sweep, 4 + i);
    return (buffer_add(&moments->replay.edges, &edge, sizeof edge)
            && buffer_add(&moments->weighed, &weighed, sizeof weighed))
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

/* Replay in the order that is known, with all weights at once. */
static void replay_weights(const Nodes *nodes, const Edge *edges, const Weighed *weighed,
                           int64_t *at)
{
    for (size_t i = 0; i < nodes->done; i++)
        for (size_t j = 0; j < WEIGHTS; j++)
            at[nodes->order[i] * WEIGHTS + j]
                = nodes->binding[nodes->order[i]] == NOTHING ? 0 : INT64_MIN;
    for (size_t i = 0; i < nodes->done; i++) {
        size_t node = nodes->order[i];
        for (size_t j = nodes->first_out[node]; j < nodes->first_out[node + 1]; j++) {
            const Weighed *edge = &weighed[nodes->outgoing[j]];
            size_t target = (size_t)(edges[nodes->outgoing[j]].target - nodes->least);
            if (nodes->place[target] <= i)
                continue; /* of a circle */
            for (size_t k = 0; k < WEIGHTS; k++) {
                int64_t moment = bounded_sum(at[node * WEIGHTS + k], edge->weights[k]);
                if (moment > at[target * WEIGHTS + k])
                    at[target * WEIGHTS + k] = moment;
            }
        }
    }
}

static bool find_moments(Sweep *sweep, void *state)
{
    Moments *moments = state;
    const Edge *edges = (const Edge *)moments->replay.edges.data;
    const Weighed *weighed = (const Weighed *)moments->weighed.data;
    size_t count = edge_count(&moments->replay), groups = 0;
    int64_t last = -1;
    for (size_t i = 0; i < count; i++) {
        if (weighed[i].group < 0 && weighed[i].group != NOTHING)
            return sweep_fail(sweep, "Invalid Input Error: a group below 0");
        last = weighed[i].group > last ? weighed[i].group : last;
    }
    if (last < 0)
        return true;
    groups = room_between(0, last, count);
    if (groups == 0)
        return sweep_fail(sweep, "Invalid Input Error: numbers of groups with holes");
    Nodes nodes = {0};
    int64_t *found = malloc(groups * sizeof weighed->weights), *at = NULL;
    if (found != NULL && replay_all(&nodes, edges, count))
        at = malloc(nodes.count * sizeof weighed->weights);
    bool is_good = at != NULL;
    if (is_good)
        replay_weights(&nodes, edges, weighed, at);
    else
        sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
    for (size_t i = 0; is_good && i < groups * WEIGHTS; i++)
        found[i] = NOTHING;
    for (size_t i = 0; is_good && i < count; i++) {
        if (weighed[i].group == NOTHING)
            continue;
        const int64_t *moment = &at[(size_t)(edges[i].target - nodes.least) * WEIGHTS];
        int64_t *one = &found[(size_t)weighed[i].group * WEIGHTS];
        for (size_t j = 0; j < WEIGHTS; j++)
            if (one[j] == NOTHING || (weighed[i].group == 0 ? moment[j] < one[j] : moment[j] > one[j]))
                one[j] = moment[j];
    }
    for (size_t i = 0; is_good && i < groups; i++) {
        is_good = give_number(sweep, (int64_t)i);
        for (size_t j = 0; is_good && j < WEIGHTS; j++)
            is_good = give_number(sweep, found[i * WEIGHTS + j]);
    }
    free_nodes(&nodes);
    free(found);
    free(at);
    return is_good;
}

static void free_moments(void *state)
{
    buffer_free(&((Moments *)state)->replay.edges);
    buffer_free(&((Moments *)state)->weighed);
}

const SweepKind MOMENTS = {
    .name = "moments",
    .takes = "lllllllll",
    .gives = "llllll",
    .names = {"moment", "ns_0", "ns_1", "ns_2", "ns_3", "ns_4"},
    .state_bytes = sizeof(Moments),
    .take = take_weighed,
    .end = find_moments,
    .free = free_moments,
};

/* The step of each trace as recorded and in four replays, and the host slowdown factor with which the
 * mean step of all traces takes the wanted time. A step is the mean of ten that follow each other: a
 * shorter recording is extended by steps as long as its step ends are apart. prediction/predicting.py
 * has the same formula for replays under changes. */

#define LEAST_FACTOR 0.2
#define MOST_FACTOR 4.0
#define MILLION 1000000
#define STEPS_OF_LOOP 10

enum { BEGIN, FIRST_END, LAST_END, BOUNDS };

typedef struct {
    int64_t trace, bound, steps, host;
} Bound;

typedef struct {
    Moments moments;
    Buffer bounds;
    int64_t wanted; /* ns */
} Steps;

static bool take_step_edge(Sweep *sweep, void *state, bool is_new_part)
{
    (void)is_new_part;
    Steps *steps = state;
    Edge edge = {(int64_t)edge_count(&steps->moments.replay), number_of(sweep, 0),
                 number_of(sweep, 1), number_of(sweep, 6), number_of(sweep, 2), false};
    Weighed weighed = {.group = NOTHING};
    for (int i = 0; i < 4; i++)
        weighed.weights[i] = number_of(sweep, 6 + i);
    Bound bound = {number_of(sweep, 3), number_of(sweep, 4), number_of(sweep, 5),
                   number_of(sweep, 10)};
    steps->wanted = number_of(sweep, 11);
    return (buffer_add(&steps->moments.replay.edges, &edge, sizeof edge)
            && buffer_add(&steps->moments.weighed, &weighed, sizeof weighed)
            && buffer_add(&steps->bounds, &bound, sizeof bound))
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

/* Times that SQL hands over may be any: those beyond 64 bits stay at the bounds. */
static int64_t whole(double ns)
{
    return ns >= 9e18 ? INT64_MAX : ns <= -9e18 ? INT64_MIN : (int64_t)ns;
}

/* Find the step of each trace with each of the weights, and behind the traces their mean; NOTHING for
 * a trace without steps. If asked, the last weight is replaced by the recorded times. */
static void find_steps(const Nodes *nodes, const Edge *edges, const Steps *steps, bool is_recorded,
                       int64_t *at, int64_t *ends, int64_t *found, size_t traces)
{
    const Weighed *weighed = (const Weighed *)steps->moments.weighed.data;
    const Bound *bounds = (const Bound *)steps->bounds.data;
    replay_weights(nodes, edges, weighed, at);
    for (size_t i = 0; i < BOUNDS * traces * WEIGHTS; i++)
        ends[i] = NOTHING;
    for (size_t i = 0; i < (traces + 1) * WEIGHTS; i++)
        found[i] = NOTHING;
    size_t count = edge_count(&steps->moments.replay);
    for (size_t i = 0; i < count; i++) {
        if (bounds[i].trace == NOTHING)
            continue;
        const int64_t *moment = &at[(size_t)(edges[i].target - nodes->least) * WEIGHTS];
        int64_t *of_trace = &ends[(size_t)bounds[i].trace * BOUNDS * WEIGHTS];
        for (size_t j = 0; j < WEIGHTS; j++) {
            int64_t came = is_recorded && j == WEIGHTS - 1 ? edges[i].recorded : moment[j];
            for (int64_t bound = BEGIN; bound < BOUNDS; bound++) {
                int64_t *last = &of_trace[(size_t)bound * WEIGHTS + j];
                bool counts = bound == bounds[i].bound
                           || (bound == LAST_END && bounds[i].bound == FIRST_END);
                *last = counts && came > *last ? came : *last;
            }
        }
        /* Until all is seen, the number of steps. */
        found[(size_t)bounds[i].trace * WEIGHTS] = bounds[i].steps > 1 ? bounds[i].steps : 1;
    }
    double sums[WEIGHTS] = {0};
    size_t with_steps = 0;
    for (size_t i = 0; i < traces; i++) {
        int64_t *step = &found[i * WEIGHTS], steps_of = step[0];
        step[0] = NOTHING;
        const int64_t *begin = &ends[i * BOUNDS * WEIGHTS];
        const int64_t *first_end = begin + FIRST_END * WEIGHTS, *end = begin + LAST_END * WEIGHTS;
        if (*begin == NOTHING || *first_end == NOTHING)
            continue;
        with_steps++;
        for (size_t j = 0; j < WEIGHTS; j++) {
            double step_ns = (double)bounded_difference(end[j], begin[j]), n = (double)steps_of;
            if (steps_of > 1 && steps_of < STEPS_OF_LOOP) {
                double apart = (double)bounded_difference(end[j], first_end[j]) / (n - 1);
                step_ns += (STEPS_OF_LOOP - n) * apart;
                n = STEPS_OF_LOOP;
            }
            step_ns /= n;
            step[j] = whole(step_ns);
            sums[j] += step_ns;
        }
    }
    for (size_t j = 0; j < WEIGHTS && with_steps > 0; j++)
        found[traces * WEIGHTS + j] = whole(sums[j] / (double)with_steps);
}

/* Replay with more and less host time until the step takes the wanted time. The factor is 1 where the
 * device alone takes as long. `plain` has room for one weight of each edge. */
static double find_factor(const Nodes *nodes, const Edge *edges, Steps *steps, int64_t *plain,
                          int64_t *at, int64_t *ends, int64_t *found, size_t traces)
{
    Weighed *weighed = (Weighed *)steps->moments.weighed.data;
    const Bound *bounds = (const Bound *)steps->bounds.data;
    const int64_t *mean = &found[traces * WEIGHTS];
    double wanted = (double)steps->wanted;
    double low = LEAST_FACTOR, high = MOST_FACTOR, low_step = 0, high_step = 0;
    size_t count = edge_count(&steps->moments.replay);
    for (size_t i = 0; i < count; i++)
        plain[i] = weighed[i].weights[1];
    for (int round = 0; round < 6; round++) {
        double factors[WEIGHTS];
        for (size_t j = 0; j < WEIGHTS; j++)
            factors[j] = low + (high - low) * (double)j / (WEIGHTS - 1);
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < WEIGHTS; j++)
                weighed[i].weights[j]
                    = bounded_sum(plain[i], whole((factors[j] - 1) * (double)bounds[i].host));
        find_steps(nodes, edges, steps, false, at, ends, found, traces);
        if (round == 0 && (double)mean[0] >= 0.995 * wanted)
            return 1;
        if (round == 0 && (double)mean[WEIGHTS - 1] < wanted)
            return MOST_FACTOR;
        size_t above = 1;
        while (above < WEIGHTS - 1 && (double)mean[above] < wanted)
            above++;
        low = factors[above - 1], high = factors[above];
        low_step = (double)mean[above - 1], high_step = (double)mean[above];
    }
    return high_step > low_step
             ? low + (high - low) * (wanted - low_step) / (high_step - low_step)
             : high;
}

static bool give_steps(Sweep *sweep, void *state)
{
    Steps *steps = state;
    const Edge *edges = (const Edge *)steps->moments.replay.edges.data;
    const Bound *bounds = (const Bound *)steps->bounds.data;
    size_t count = edge_count(&steps->moments.replay), traces;
    int64_t last = -1;
    for (size_t i = 0; i < count; i++) {
        if (bounds[i].trace < 0 && bounds[i].trace != NOTHING)
            return sweep_fail(sweep, "Invalid Input Error: a trace below 0");
        last = bounds[i].trace > last ? bounds[i].trace : last;
    }
    if (last < 0)
        return true;
    traces = room_between(0, last, count);
    if (traces == 0)
        return sweep_fail(sweep, "Invalid Input Error: numbers of traces with holes");
    Nodes nodes = {0};
    int64_t *at = NULL, *ends = malloc(BOUNDS * traces * WEIGHTS * sizeof *ends);
    int64_t *found = malloc((traces + 1) * WEIGHTS * sizeof *found);
    int64_t *told = malloc(traces * WEIGHTS * sizeof *told);
    int64_t *plain = malloc(count * sizeof *plain);
    if (ends != NULL && found != NULL && told != NULL && plain != NULL
        && replay_all(&nodes, edges, count))
        at = malloc(nodes.count * WEIGHTS * sizeof *at);
    bool is_good = at != NULL;
    if (is_good) {
        int64_t factor = NOTHING;
        find_steps(&nodes, edges, steps, true, at, ends, found, traces);
        memcpy(told, found, traces * WEIGHTS * sizeof *told);
        if (steps->wanted != NOTHING)
            factor = (int64_t)(find_factor(&nodes, edges, steps, plain, at, ends, found, traces)
                               * MILLION);
        for (size_t i = 0; is_good && i < traces; i++) {
            if (told[i * WEIGHTS] == NOTHING)
                continue;
            is_good = give_number(sweep, (int64_t)i);
            for (size_t j = 0; is_good && j < WEIGHTS; j++)
                is_good = give_number(sweep, told[i * WEIGHTS + j]);
            is_good = is_good && give_number(sweep, factor);
        }
    } else
        sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
    free_nodes(&nodes);
    free(at);
    free(ends);
    free(found);
    free(told);
    free(plain);
    return is_good;
}

static void free_steps(void *state)
{
    free_moments(&((Steps *)state)->moments);
    buffer_free(&((Steps *)state)->bounds);
}

const SweepKind RUN_STEPS = {
    .name = "run_steps",
    .takes = "llllllllllll",
    .gives = "lllllll",
    .names = {"trace_id", "replayed_ns", "plain_ns", "low_ns", "high_ns", "recorded_ns",
              "factor_millionths"},
    .state_bytes = sizeof(Steps),
    .take = take_step_edge,
    .end = give_steps,
    .free = free_steps,
};

/* The way back: what is taken are the binding edges; for a weight they have the trace whose end they
 * lead to, or nothing. */

static bool take_binding(Sweep *sweep, void *state, bool is_new_part)
{
    (void)is_new_part;
    Edge edge = {number_of(sweep, 0), number_of(sweep, 1), number_of(sweep, 2),
                 number_of(sweep, 3), 0, false};
    return buffer_add(&((Replay *)state)->edges, &edge, sizeof edge)
        || sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
}

static bool walk_back(Sweep *sweep, void *state)
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
        return sweep_fail(sweep, "Out of Memory Error: a sweep has no room");
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
            is_good = give_number(sweep, edges[i].weight) && give_number(sweep, place)
                && give_number(sweep, edges[at].number);
            int64_t source = edges[at].source;
            at = source < least || source > most ? SIZE_MAX : into[source - least];
        }
    }
    free(into);
    return is_good;
}

const SweepKind PATH = {
    .name = "path",
    .takes = "llll",
    .gives = "lll",
    .names = {"trace_id", "place", "edge_id"},
    .state_bytes = sizeof(Replay),
    .take = take_binding,
    .end = walk_back,
    .free = free_replay,
};
