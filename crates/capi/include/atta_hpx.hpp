// atta_hpx.hpp: operations of atta.hpp as hpx::future. Compiled only where HPX is found; without it this header is empty.
// The tests of this project compile it without HPX, and run it with a stand-in for HPX. With HPX itself it has not been
// compiled or run.
//
// A thread of the library is no thread of HPX: it registers with the runtime once, and then has an HPX thread set the value,
// so that what hangs on the future runs where HPX wants it (as HPX's own example async_io_external.cpp does). HPX's runtime
// must have started before the first operation, and the library must be shut down before HPX is.
#ifndef ATTA_HPX_HPP
#define ATTA_HPX_HPP

#if defined(__has_include)
#if __has_include(<hpx/future.hpp>) && __has_include(<hpx/runtime.hpp>)

#include <atomic>
#include <memory>
#include <string>

#include <hpx/future.hpp>
#include <hpx/runtime.hpp>

#include "atta.hpp"

namespace atta {

namespace detail {

/// Registers the thread that runs it, once, and unregisters it at the thread's end.
class hpx_thread {
public:
    hpx_thread() : runtime_(hpx::get_runtime_ptr())
    {
        static std::atomic<unsigned> next{0};
        name_ = "atta-" + std::to_string(next++);
        hpx::register_thread(runtime_, name_.c_str());
    }

    ~hpx_thread()
    {
        if (hpx::get_runtime_ptr() == runtime_)
            hpx::unregister_thread(runtime_);
    }

private:
    hpx::runtime *runtime_;
    std::string name_;
};

template <class Result>
struct hpx_promised : promised<Result, hpx::promise<Result>> {
    static int ended(void *data, int status) noexcept
    {
        thread_local hpx_thread registered;
        auto *self = static_cast<hpx_promised *>(data);
        hpx::post([self, status] {
            std::unique_ptr<hpx_promised> owned(self);
            owned->keep(status);
        });
        return 0;
    }
};

} // namespace detail

/// Submits an operation, as atta::call makes them: hpx_call<ssize_t>("pread", [=](ssize_t *n, pxfs_cb cb, void *data) {
/// return pxfs_pread(fd, buffer, bytes, offset, n, cb, data); }). To be called on an HPX thread.
template <class Result, class Submit>
hpx::future<Result> hpx_call(const char *name, Submit submit)
{
    return detail::submit_promised<detail::hpx_promised<Result>>(name, submit);
}

} // namespace atta

#endif
#endif

#endif
