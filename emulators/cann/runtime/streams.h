#pragma once

#include "races.h"
#include "stream.h"

namespace cann {
void end_streams_at_exit();  // so that no task runs while the process is taken down; once
}  // namespace cann
