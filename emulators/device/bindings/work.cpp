#include "work.h"

#include "machine.h"

namespace hetero {

c10::intrusive_ptr<Work> Work::make(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<c10d::Work>> inner,
                                    std::vector<at::Tensor> outputs, std::vector<at::Tensor> kept, std::function<void()> then) {
  auto work = c10::make_intrusive<Work>(rank, type);
  work->inner_ = std::move(inner);
  work->kept_ = std::move(kept);
  work->then_ = std::move(then);
  std::vector<c10::Device> devices;
  for (const at::Tensor& t : outputs)
    if (std::find(devices.begin(), devices.end(), t.device()) == devices.end()) devices.push_back(t.device());
  work->outputs_ = std::move(outputs);
  if (c10d::isP2POp(type)) return work;  // gloo has no futures of these
  work->future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  auto left = std::make_shared<std::atomic<size_t>>(work->inner_.size());
  for (const auto& one : work->inner_)
    one->getFuture()->addCallback([work, left](c10::ivalue::Future& inner) {
      if (inner.hasError()) {
        work->future_->setErrorIfNeeded(inner.exception_ptr());
        return;
      }
      if (--*left == 0) {
        try {
          work->done();
          work->future_->markCompleted(c10::IValue(work->outputs_));
        } catch (...) {
          work->future_->setErrorIfNeeded(std::current_exception());
        }
      }
    });
  return work;
}

void Work::done() {
  std::call_once(once_, [this] {
    const at::AutoDispatchBelowAutograd below;
    if (then_) then_();
    kept_.clear();
  });
}

bool Work::isCompleted() {
  return std::all_of(inner_.begin(), inner_.end(), [](const auto& one) { return one->isCompleted(); });
}

bool Work::isSuccess() const {
  return std::all_of(inner_.begin(), inner_.end(), [](const auto& one) { return one->isSuccess(); });
}

std::exception_ptr Work::exception() const {
  for (const auto& one : inner_)
    if (auto error = one->exception()) return error;
  return nullptr;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  for (const auto& one : inner_)
    if (!one->wait(timeout)) return false;
  done();
  return true;
}

}  // namespace hetero
