// Collectives of device tensors, by gloo on the same bytes: what nccl, bccl and sccl are here.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace hetero {

// What a library is called, and what it does not do.
struct Collectives {
  std::string name;               // "nccl"
  std::string library;            // as its messages call it, "NCCL"
  std::set<std::string> refused;  // collectives that its vendor has not verified
};
Collectives& collectives();

struct ProcessGroupOptions : c10d::Backend::Options {
  explicit ProcessGroupOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
      : c10d::Backend::Options(collectives().name, timeout) {}
};

class ProcessGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using Done = c10::intrusive_ptr<c10d::Work>;

  ProcessGroup(c10::intrusive_ptr<c10d::Backend> gloo, c10::intrusive_ptr<Options> options, int64_t place);

  const std::string getBackendName() const override { return collectives().name; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { group_.emplace(); }
  Done endCoalescing() override;
  void setSequenceNumberForGroup() override { gloo_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return gloo_->getSequenceNumberForGroup(); }

  Done broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Done allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Done allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Done reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Done allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Done _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Done allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Done gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Done scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  Done reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override;
  Done _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Done reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  Done alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                     std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  Done alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Done send(Tensors& tensors, int to, int tag) override;
  Done recv(Tensors& tensors, int from, int tag) override;
  Done recvAnysource(Tensors& tensors, int tag) override;
  Done barrier(const c10d::BarrierOptions& options) override;

 private:
  // Begins a call: refusals, faults, one device for each rank.
  void begin(const char* what, c10d::OpType type, const Tensors& tensors, bool reduces);
  // The CPU's tensor on the same bytes; what it is of is kept until the work is done.
  at::Tensor cpu(const at::Tensor& tensor, const char* what, bool write);
  Done finish(c10d::OpType type, Done inner, Tensors outputs, std::function<void()> then = {});
  void one_device_each();
  // What gloo is to reduce with; `average` divides afterwards.
  c10d::ReduceOp operation(const c10d::ReduceOp& asked, const at::Tensor& tensor, bool& average) const;

  c10::intrusive_ptr<c10d::Backend> gloo_;
  c10::intrusive_ptr<Options> options_;
  int64_t place_;  // number of this rank's first device on the machine, before it was restricted
  bool checked_ = false;
  Tensors kept_;
  std::optional<std::vector<Done>> group_;
};

}  // namespace hetero
