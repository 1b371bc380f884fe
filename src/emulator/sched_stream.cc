// SPDX-License-Identifier: Apache-2.0
/* Streams as queues of operations, events, and engines with a clock of their own. */
#include "sched_internal.h"

#include <algorithm>

namespace emu {

namespace {

std::vector<Stream *> &active() { // those with something queued
  static std::vector<Stream *> a;
  return a;
}
std::unordered_map<uint64_t, std::shared_ptr<OpState>> &by_id() {
  static std::unordered_map<uint64_t, std::shared_ptr<OpState>> m;
  return m;
}

Stream *new_stream(Process *p, int device, bool nonblocking) {
  auto *s = new Stream{p, device, nonblocking, false, false, {}, nullptr};
  p->streams.push_back(s);
  return s;
}

std::shared_ptr<OpState> enqueue(Stream *s, const char *name, Site site) {
  auto op = std::make_shared<OpState>();
  op->id = ++sched->operations;
  op->name = name;
  op->site = site;
  op->stream = s;
  op->start = release();
  if (s->tail)
    op->after.push_back(s->tail);
  for (Stream *o : s->process->streams) {
    if (o == s || o->device != s->device || !o->tail)
      continue;
    if ((s->legacy && !o->nonblocking) || (o->legacy && !s->nonblocking))
      op->after.push_back(o->tail);
  }
  s->queue.push_back(op);
  s->tail = op;
  by_id()[op->id] = op;
  if (s->queue.size() == 1)
    active().push_back(s);
  progress();
  return op;
}

bool may_start(const OpState &op) {
  for (auto &o : op.after)
    if (!o->done)
      return false;
  return true;
}

/* The first operation of S goes on if it can. */
bool step(Stream *s) {
  std::shared_ptr<OpState> op = s->queue.front();
  if (op->started) {
    if (!op->check)
      return false;
    bool done = false;
    sched_inline(&op->agent, [&] { done = op->check(Operation{op->id}); });
    if (done && !op->done)
      op_finish(op.get());
    return done;
  }
  if (!may_start(*op))
    return false;
  op->started = true;
  for (auto &o : op->after)
    op->start.join(o->end);
  op->after.clear();
  op->agent.process = s->process;
  op->agent.who = Identity{ActorKind::AGENT, s->process->index, s->device, {}, {}, 0, 0, nullptr};
  if (op->launch) {
    grid_begin(op.get());
    return true;
  }
  op->agent.hb = hb_actor_begin(op->start, op->agent.who);
  bool done = true;
  if (op->begin)
    sched_inline(&op->agent, [&] { done = op->begin(Operation{op->id}); });
  if (done && !op->done)
    op_finish(op.get());
  return true;
}

} // namespace

void op_finish(OpState *op) {
  std::shared_ptr<OpState> keep = op->stream->queue.front();
  if (op->agent.hb) {
    op->end.join(hb_actor_end(op->agent.hb));
    op->agent.hb = nullptr;
  } else {
    op->end.join(op->start);
  }
  op->done = true;
  op->done_at = sched->ticks;
  op->begin = nullptr;
  op->check = nullptr;
  Stream *s = op->stream;
  s->queue.pop_front();
  by_id().erase(op->id);
  if (s->queue.empty()) {
    auto &a = active();
    a.erase(std::remove(a.begin(), a.end(), s), a.end());
  }
  progress();
}

bool streams_step() {
  bool any = false;
  std::vector<Stream *> now = active();
  for (size_t i = now.size(); i > 1 && perturbed(); i--)
    std::swap(now[i - 1], now[choose(i)]);
  for (Stream *s : now)
    if (!s->queue.empty())
      any |= step(s);
  return any;
}

void streams_drop(Process *p) {
  auto &a = active();
  a.erase(std::remove_if(a.begin(), a.end(), [p](Stream *s) { return s->process == p; }), a.end());
  auto &g = sched->grids;
  g.erase(std::remove_if(g.begin(), g.end(),
                         [p](Grid *x) {
                           const bool mine = x->op->stream->process == p;
                           if (mine)
                             sched->used[(size_t)x->op->stream->device] -=
                                 x->weight * (double)x->live;
                           return mine;
                         }),
          g.end());
}

std::string deadlock_operations(bool *residency) {
  std::string t;
  for (Grid *g : sched->grids)
    if (g->next < g->blocks) {
      *residency = true;
      t += "\n  kernel " + g->op->name + " of rank " +
           std::to_string(g->op->stream->process->index) + ": " +
           std::to_string(g->blocks - g->next) + " of " + std::to_string(g->blocks) +
           " blocks wait for others to end before they can be resident";
    }
  for (Stream *s : active()) {
    const OpState &op = *s->queue.front();
    t += "\n  rank " + std::to_string(s->process->index) + ", device " + std::to_string(s->device) +
         ": " + op.name + (op.started ? " does not end" : " cannot start") +
         (op.waits.empty() ? "" : ", " + op.waits) +
         (op.site ? ", enqueued at " + site_text(op.site) : "");
  }
  return t;
}

/* ---- the interface ----------------------------------------------------------------------------
 */

Stream *stream_of(const void *cuda_stream) {
  const auto n = (uintptr_t)cuda_stream;
  if (n > 2)
    return static_cast<Stream *>(const_cast<void *>(cuda_stream));
  Process *p = sched->current->process;
  const int device = current_device();
  Stream *&s = n == 2 ? p->per_thread[device] : p->legacy[device];
  if (!s) {
    s = new_stream(p, device, false);
    s->legacy = n != 2;
  }
  return s;
}
int stream_device(const Stream *stream) { return stream->device; }
bool stream_capturing(const Stream *) { return false; }
Stream *stream_create(int device, bool nonblocking, int) {
  return new_stream(sched->current->process, device, nonblocking);
}
void stream_destroy(Stream *stream) { stream->destroyed = true; }

Operation stream_enqueue(Stream *stream, const char *name, OpStart start, Site site) {
  auto op = enqueue(stream, name, site);
  op->begin = std::move(start);
  maybe_switch();
  return Operation{op->id};
}
Operation stream_enqueue(Stream *stream, const char *name, OpStart start,
                         std::function<bool(Operation)> check, std::string waits, Site site) {
  auto op = enqueue(stream, name, site);
  op->begin = std::move(start);
  op->check = std::move(check);
  op->waits = std::move(waits);
  maybe_switch();
  return Operation{op->id};
}
Operation stream_launch(Stream *stream, LaunchConfig config, Site site) {
  auto op = enqueue(stream, config.name, site);
  op->launch.reset(new LaunchConfig(std::move(config)));
  maybe_switch();
  return Operation{op->id};
}

void as_operation(Operation operation, const std::function<void()> &body) {
  auto it = by_id().find(operation.id);
  if (it != by_id().end())
    sched_inline(&it->second->agent, body);
}

static void wait_for(std::shared_ptr<OpState> op, const std::string &what, Site site) {
  if (!op)
    return;
  wait_until([op] { return op->done; }, {what + " (" + op->name + ")", site});
  acquire(op->end);
}

void stream_synchronize(Stream *stream, Site site) {
  wait_for(stream->tail, "waits for a stream", site);
  if (stream->legacy)
    for (Stream *o : std::vector<Stream *>(stream->process->streams))
      if (o->device == stream->device && !o->nonblocking)
        wait_for(o->tail, "waits for a stream", site);
}
bool stream_query(Stream *stream, Site site) {
  if (stream->tail && !stream->tail->done)
    poll(site, "a stream");
  if (stream->tail && !stream->tail->done)
    return false;
  if (stream->tail)
    acquire(stream->tail->end);
  return true;
}
void device_synchronize(Site site) {
  const int device = current_device();
  for (Stream *o : std::vector<Stream *>(sched->current->process->streams))
    if (o->device == device)
      wait_for(o->tail, "waits for its device", site);
}

Event *event_create(int device) { return new Event{device, nullptr}; }
void event_destroy(Event *event) { delete event; }
void event_record(Event *event, Stream *stream, Site site) {
  event->last = enqueue(stream, "an event's record", site);
}
void stream_wait_event(Stream *stream, Event *event, Site site) {
  if (event->last)
    enqueue(stream, "a wait for an event", site)->after.push_back(event->last);
}
bool event_query(Event *event, Site site) {
  if (event->last && !event->last->done)
    poll(site, "an event");
  if (event->last && !event->last->done)
    return false;
  if (event->last)
    acquire(event->last->end);
  return true;
}
void event_synchronize(Event *event, Site site) {
  wait_for(event->last, "waits for an event", site);
}
uint64_t event_time(const Event *event) { return event->last ? event->last->done_at : 0; }

/* ---- agents -----------------------------------------------------------------------------------
 */

Agent *agent_new(int process, int device, const std::string &name) {
  auto *a = new Agent;
  a->name = name;
  a->actor.process = sched->processes[(size_t)process].get();
  a->actor.who = Identity{ActorKind::AGENT, process, device, {}, {}, 0, 0, nullptr};
  a->actor.hb = hb_actor_begin(Clock(), a->actor.who);
  return a;
}
void agent_delete(Agent *agent) {
  auto &l = sched->laters;
  l.erase(std::remove_if(l.begin(), l.end(), [=](const Later &x) { return x.agent == agent; }),
          l.end());
  hb_actor_end(agent->actor.hb);
  delete agent;
}
void as_agent(Agent *agent, const std::function<void()> &body) {
  sched_inline(&agent->actor, body);
}
void later(Agent *agent, uint64_t delay, std::function<void()> body) {
  sched->laters.push_back(
      Later{agent, sched->steps + 1 + (perturbed() ? delay : 0), std::move(body)});
}

void rendezvous(const std::string &key, int count, int index, void *data,
                const std::function<void(const std::vector<void *> &)> &last,
                const WaitReason &reason) {
  struct Meeting {
    int arrived = 0, left = 0;
    bool done = false;
    std::vector<void *> data;
    Clock clock;
  };
  static std::map<std::pair<Scheduler *, std::string>, std::shared_ptr<Meeting>> meetings;
  const auto where = std::make_pair(sched, key);
  // One that is over but not left by all is replaced: who is still in it holds it.
  auto &slot = meetings[where];
  if (!slot || slot->done)
    slot = std::make_shared<Meeting>();
  std::shared_ptr<Meeting> m = slot;
  m->data.resize((size_t)count);
  m->data[(size_t)index] = data;
  m->clock.join(release());
  if (++m->arrived == count) {
    if (last)
      last(m->data);
    m->clock.join(release());
    m->done = true;
    meetings.erase(where);
    progress();
  } else {
    wait_until([m] { return m->done; }, reason);
  }
  acquire(m->clock);
}

} // namespace emu
