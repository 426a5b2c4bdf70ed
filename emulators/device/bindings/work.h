// A collective that gloo is doing.
#pragma once
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <mutex>
#include <vector>

#include "torch.h"

namespace hetero {

class Work final : public c10d::Work {
 public:
  // `then` runs once, after all of `inner`; `kept` lives until then; `outputs` are the future's value.
  static c10::intrusive_ptr<Work> make(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<c10d::Work>> inner,
                                       std::vector<at::Tensor> outputs, std::vector<at::Tensor> kept, std::function<void()> then);

  explicit Work(int rank, c10d::OpType type) : c10d::Work(rank, type) {}
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  int sourceRank() const override { return inner_.front()->sourceRank(); }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  void done();

  std::vector<c10::intrusive_ptr<c10d::Work>> inner_;
  std::vector<at::Tensor> outputs_, kept_;
  std::function<void()> then_;
  std::once_flag once_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace hetero
