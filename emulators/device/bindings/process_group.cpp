#include "process_group.h"

#include <thread>

#include "faults.h"
#include "machine.h"
#include "memory.h"
#include "streams.h"
#include "tensors.h"
#include "work.h"

namespace hetero {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

at::Tensor only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, collectives().library, ": one tensor a process is expected, not ", tensors.size());
  return tensors.front();
}

bool carried(at::ScalarType type) {
  switch (type) {
    case at::kFloat: case at::kDouble: case at::kHalf: case at::kBFloat16: case at::kChar: case at::kByte:
    case at::kInt: case at::kLong: case at::kBool:
      return true;
    default:
      return c10::isFloat8Type(type);
  }
}

bool as_bytes(at::ScalarType type) { return type == at::kBool || c10::isFloat8Type(type); }

}  // namespace

Collectives& collectives() {
  static auto* one = new Collectives;
  return *one;
}

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Backend> gloo, c10::intrusive_ptr<Options> options, int64_t place)
    : c10d::Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)), options_(std::move(options)), place_(place) {}

void ProcessGroup::begin(const char* what, OpType, const Tensors& tensors, bool reduces) {
  const auto& library = collectives().library;
  TORCH_CHECK_NOT_IMPLEMENTED(!collectives().refused.count(what), library, ": ", what,
                              " is not verified by the vendor, and the emulator refuses it: build it from all_reduce, "
                              "all_gather, broadcast, send and recv");
  for (const at::Tensor& t : tensors) {
    TORCH_CHECK(ours(t), "Tensors must be ", machine().title, " and dense: ", what, " was given one on ", t.device());
    TORCH_CHECK(t.is_contiguous(), "Tensors must be contiguous: ", what);
    TORCH_CHECK(carried(t.scalar_type()) || (t.is_complex() && machine().type == c10::kCUDA),
                "Input tensor data type is not supported for ", library, " process group: ", t.scalar_type());
    TORCH_CHECK(!reduces || !c10::isFloat8Type(t.scalar_type()), library, ": ", t.scalar_type(),
                " travels as bytes and cannot be reduced");
  }
  one_device_each();
  const double late = delay(what);
  if (late > 0) std::this_thread::sleep_for(std::chrono::duration<double>(late));
  TORCH_CHECK(!fault("comm", what), library, " error: unhandled system error (injected: HETERO_EMULATED_FAULTS), at ", what);
}

void ProcessGroup::one_device_each() {
  if (checked_) return;
  checked_ = true;
  std::vector<at::Tensor> mine{at::full({1}, place_ + current_device(), at::kLong)};
  std::vector<std::vector<at::Tensor>> all(1);
  for (int i = 0; i < getSize(); ++i) all[0].push_back(at::empty({1}, at::kLong));
  gloo_->allgather(all, mine)->wait();
  for (int i = 0; i < getSize(); ++i)
    TORCH_CHECK(i == getRank() || all[0][i].item<int64_t>() != mine[0].item<int64_t>(), collectives().library,
                " error: invalid usage: Duplicate GPU detected : rank ", getRank(), " and rank ", i, " both on ",
                machine().title, " device ", mine[0].item<int64_t>(), ": call set_device(local rank) first");
}

at::Tensor ProcessGroup::cpu(const at::Tensor& tensor, const char* what, bool write) {
  const c10::Stream stream = current_stream(tensor.device().index());
  launch(stream, what);
  Aliases aliases(what);
  at::Tensor made = aliases.cpu(tensor, write);
  kept_.push_back(tensor);
  if (tensor.is_complex()) made = at::view_as_real(made);
  return as_bytes(tensor.scalar_type()) ? made.view(at::kByte) : made;
}

ProcessGroup::Done ProcessGroup::finish(OpType type, Done inner, Tensors outputs, std::function<void()> then) {
  Done work = Work::make(getRank(), type, {std::move(inner)}, std::move(outputs), std::exchange(kept_, {}), std::move(then));
  if (group_) group_->push_back(work);
  return work;
}

ProcessGroup::Done ProcessGroup::endCoalescing() {
  TORCH_CHECK(group_, "endCoalescing without startCoalescing");
  auto works = std::move(*group_);
  group_.reset();
  if (works.empty()) return nullptr;
  const bool p2p = std::any_of(works.begin(), works.end(), [](const Done& w) { return c10d::isP2POp(w->retrieveOpType()); });
  return Work::make(getRank(), p2p ? OpType::SEND : OpType::COALESCED, std::move(works), {}, {}, {});
}

ReduceOp ProcessGroup::operation(const ReduceOp& asked, const at::Tensor& tensor, bool& average) const {
  const bool boolean = tensor.scalar_type() == at::kBool;
  average = asked == ReduceOp::AVG;
  switch (asked.op_) {
    case ReduceOp::AVG:
      TORCH_CHECK(!boolean, "Cannot use ReduceOp.AVG with Boolean inputs");
      return ReduceOp::SUM;
    case ReduceOp::SUM: return boolean ? ReduceOp::MAX : ReduceOp::SUM;  // as NCCL does: a sum of bools is "any"
    case ReduceOp::PRODUCT: return boolean ? ReduceOp::MIN : ReduceOp::PRODUCT;
    case ReduceOp::MIN: case ReduceOp::MAX: return asked;
    case ReduceOp::BAND: TORCH_CHECK(false, "Cannot use ReduceOp.BAND with ", collectives().library);
    case ReduceOp::BOR: TORCH_CHECK(false, "Cannot use ReduceOp.BOR with ", collectives().library);
    case ReduceOp::BXOR: TORCH_CHECK(false, "Cannot use ReduceOp.BXOR with ", collectives().library);
    default: TORCH_CHECK(false, "Unhandled ReduceOp");
  }
}

ProcessGroup::Done ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  begin("broadcast", OpType::BROADCAST, tensors, false);
  Tensors on{cpu(only(tensors), "broadcast", true)};
  return finish(OpType::BROADCAST, gloo_->broadcast(on, options), tensors);
}

ProcessGroup::Done ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  begin("allreduce", OpType::ALLREDUCE, tensors, true);
  bool average = false;
  c10d::AllreduceOptions gloo = options;
  gloo.reduceOp = operation(options.reduceOp, only(tensors), average);
  Tensors on{cpu(only(tensors), "allreduce", true)};
  return finish(OpType::ALLREDUCE, gloo_->allreduce(on, gloo), tensors, [on = on[0], average, n = getSize()]() mutable {
    if (average) on.div_(n, at::isIntegralType(on.scalar_type(), true) ? std::optional<c10::string_view>("trunc") : std::nullopt);
  });
}

ProcessGroup::Done ProcessGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  std::vector<Done> all;
  for (at::Tensor& t : tensors) {
    Tensors one{t};
    all.push_back(allreduce(one, options));
  }
  return Work::make(getRank(), OpType::COALESCED, std::move(all), tensors, {}, {});
}

ProcessGroup::Done ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  begin("reduce", OpType::REDUCE, tensors, true);
  bool average = false;
  c10d::ReduceOptions gloo = options;
  gloo.reduceOp = operation(options.reduceOp, only(tensors), average);
  average = average && options.rootRank == getRank();
  Tensors on{cpu(only(tensors), "reduce", true)};
  return finish(OpType::REDUCE, gloo_->reduce(on, gloo), tensors, [on = on[0], average, n = getSize()]() mutable {
    if (average) on.div_(n);
  });
}

ProcessGroup::Done ProcessGroup::allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  begin("allgather", OpType::ALLGATHER, inputs, false);
  const at::Tensor input = only(inputs);
  begin("allgather", OpType::ALLGATHER, outputs.at(0), false);
  Tensors from{cpu(input, "allgather", false)};
  Lists to(1);
  for (const at::Tensor& t : outputs.at(0)) to[0].push_back(cpu(t, "allgather", true));
  return finish(OpType::ALLGATHER, gloo_->allgather(to, from, options), outputs[0]);
}

ProcessGroup::Done ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  begin("_allgather_base", OpType::_ALLGATHER_BASE, {output, input}, false);
  TORCH_CHECK(input.dtype() == output.dtype(), "output tensor must have the same type as input tensor");
  TORCH_CHECK(input.numel() * getSize() == output.numel(), "output tensor size must be equal to world_size times input tensor size");
  // A copy: FSDP gathers in place, from a part of the output.
  Tensors from{cpu(input, "_allgather_base", false).flatten().clone()};
  const at::Tensor whole = cpu(output, "_allgather_base", true).flatten();
  Lists to{whole.chunk(getSize())};
  if (!from[0].numel()) to = {Tensors(getSize(), whole)};
  return finish(OpType::_ALLGATHER_BASE, gloo_->allgather(to, from, options), {output});
}

ProcessGroup::Done ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::AllgatherOptions& options) {
  std::vector<Done> all;
  for (size_t i = 0; i < inputs.size(); ++i) all.push_back(_allgather_base(outputs.at(i), inputs[i], options));
  return Work::make(getRank(), OpType::COALESCED, std::move(all), outputs, {}, {});
}

ProcessGroup::Done ProcessGroup::gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  begin("gather", OpType::GATHER, inputs, false);
  Tensors from{cpu(only(inputs), "gather", false)};
  Lists to;
  if (getRank() == options.rootRank) {
    to.emplace_back();
    for (const at::Tensor& t : outputs.at(0)) to[0].push_back(cpu(t, "gather", true));
  }
  return finish(OpType::GATHER, gloo_->gather(to, from, options), outputs.empty() ? Tensors{} : outputs[0]);
}

ProcessGroup::Done ProcessGroup::scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) {
  begin("scatter", OpType::SCATTER, outputs, false);
  Tensors to{cpu(only(outputs), "scatter", true)};
  Lists from;
  if (getRank() == options.rootRank) {
    from.emplace_back();
    for (const at::Tensor& t : inputs.at(0)) from[0].push_back(cpu(t, "scatter", false));
  }
  return finish(OpType::SCATTER, gloo_->scatter(to, from, options), outputs);
}

ProcessGroup::Done ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) {
  begin("_reduce_scatter_base", OpType::_REDUCE_SCATTER_BASE, {output, input}, true);
  TORCH_CHECK(input.dtype() == output.dtype(), "input tensor must be the same type as the output tensor.");
  TORCH_CHECK(output.numel() * getSize() == input.numel(), "input tensor must be the same size as output size times world size");
  bool average = false;
  c10d::AllreduceOptions gloo;
  gloo.reduceOp = operation(options.reduceOp, input, average);
  gloo.timeout = options.timeout;
  Tensors whole{cpu(input, "_reduce_scatter_base", false).flatten().clone()};
  const at::Tensor to = cpu(output, "_reduce_scatter_base", true).flatten();
  const int64_t begin = to.numel() * getRank();
  return finish(OpType::_REDUCE_SCATTER_BASE, gloo_->allreduce(whole, gloo), {output},
                [to, whole = whole[0], begin, average, n = getSize()]() mutable {
                  to.copy_(whole.narrow(0, begin, to.numel()));
                  if (average) to.div_(n);
                });
}

ProcessGroup::Done ProcessGroup::reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) {
  at::Tensor output = only(outputs);
  Tensors flat;
  for (const at::Tensor& t : inputs.at(0)) flat.push_back(t.flatten());
  at::Tensor whole = at::cat(flat);
  return _reduce_scatter_base(output, whole, options);
}

ProcessGroup::Done ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::ReduceScatterOptions& options) {
  std::vector<Done> all;
  for (size_t i = 0; i < inputs.size(); ++i) all.push_back(_reduce_scatter_base(outputs.at(i), inputs[i], options));
  return Work::make(getRank(), OpType::COALESCED, std::move(all), outputs, {}, {});
}

ProcessGroup::Done ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                                               std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  begin("alltoall_base", OpType::ALLTOALL_BASE, {output, input}, false);
  at::Tensor to = cpu(output, "alltoall_base", true), from = cpu(input, "alltoall_base", false);
  return finish(OpType::ALLTOALL_BASE, gloo_->alltoall_base(to, from, output_sizes, input_sizes, options), {output});
}

ProcessGroup::Done ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  begin("alltoall", OpType::ALLTOALL, inputs, false);
  begin("alltoall", OpType::ALLTOALL, outputs, false);
  std::vector<int64_t> to_sizes, from_sizes;
  Tensors to, from;
  for (const at::Tensor& t : outputs) {
    to.push_back(cpu(t, "alltoall", true).flatten());
    to_sizes.push_back(to.back().numel());
  }
  for (const at::Tensor& t : inputs) {
    from.push_back(cpu(t, "alltoall", false).flatten());
    from_sizes.push_back(from.back().numel());
  }
  at::Tensor sent = at::cat(from), received = at::empty_like(at::cat(to));
  auto inner = gloo_->alltoall_base(received, sent, to_sizes, from_sizes, options);
  return finish(OpType::ALLTOALL, std::move(inner), outputs, [to, received, to_sizes]() mutable {
    const auto parts = received.split_with_sizes(to_sizes);
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(parts[i]);
  });
}

ProcessGroup::Done ProcessGroup::send(Tensors& tensors, int to, int tag) {
  begin("send", OpType::SEND, tensors, false);
  Tensors on{cpu(only(tensors), "send", false)};
  return finish(OpType::SEND, gloo_->send(on, to, tag), {});
}

ProcessGroup::Done ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  begin("recv", OpType::RECV, tensors, false);
  Tensors on{cpu(only(tensors), "recv", true)};
  return finish(OpType::RECV, gloo_->recv(on, from, tag), tensors);
}

ProcessGroup::Done ProcessGroup::recvAnysource(Tensors&, int) {
  TORCH_CHECK(false, "Backend ", collectives().name, " does not support recvAnysource");
}

ProcessGroup::Done ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  begin("barrier", OpType::BARRIER, {}, false);
  synchronize_device(current_device());
  return finish(OpType::BARRIER, gloo_->barrier(options), {});
}

}  // namespace hetero
