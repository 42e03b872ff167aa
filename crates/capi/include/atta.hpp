// atta.hpp: the operations of pxfs.h for C++20: to co_await, or as std::future. Header only; link with libatta.
//
//     atta::task<long> copy(const char *path)
//     {
//         atta::file file = co_await atta::open(path, O_RDONLY);
//         char buffer[4096];
//         co_return co_await atta::read(file.get(), buffer, sizeof buffer);
//     }
//
// An operation is submitted when it is awaited, or when its future is asked for. One that fails throws std::system_error.
// A coroutine goes on in a thread of the library: it must not block there for long. Buffers must stay until the operation has
// ended; locals of the coroutine that awaits do. Paths are copied.
#ifndef ATTA_HPP
#define ATTA_HPP

#include <cerrno>
#include <coroutine>
#include <exception>
#include <fcntl.h>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include "atta.h"
#include "pxfs.h"

namespace atta {

/// What an operation without a result gives.
struct nothing {};

[[noreturn]] inline void fail(int error, const char *what)
{
    throw std::system_error(error, std::generic_category(), what);
}

namespace detail {

/// What an operation leads to, for a promise: std::promise, or one of another library with the same functions.
template <class Result, class Promise>
struct promised {
    const char *name = "";
    Result result{};
    Promise promise;

    void keep(int status)
    {
        if (status == 0)
            promise.set_value(std::move(result));
        else
            promise.set_exception(
                std::make_exception_ptr(std::system_error(status, std::generic_category(), name)));
    }
};

/// Submits an operation: its future. Kept is a promised with a continuation, ended. What went wrong with that is in the future,
/// too.
template <class Kept, class Submit>
auto submit_promised(const char *name, Submit &submit)
{
    auto shared = std::make_unique<Kept>();
    shared->name = name;
    auto future = shared->promise.get_future();
    if (submit(&shared->result, &Kept::ended, shared.get()) == 0)
        static_cast<void>(shared.release()); // the continuation's from here on
    else
        shared->keep(errno);
    return future;
}

} // namespace detail

/// An operation that has not been submitted. Submit is called with (Result *, pxfs_cb, void *) and does what a function of
/// pxfs.h does: 0, or -1 with errno.
template <class Result, class Submit>
class [[nodiscard]] operation {
public:
    operation(const char *name, Submit submit) : name_(name), submit_(std::move(submit)) {}

    /// Awaits it: the result, or std::system_error.
    auto operator co_await() &&
    {
        return awaiter(name_, std::move(submit_));
    }

    /// Submits it. What went wrong with that is in the future, too.
    std::future<Result> as_future() &&
    {
        return detail::submit_promised<promised>(name_, submit_);
    }

private:
    struct awaiter {
        awaiter(const char *name, Submit submit) : name(name), submit(std::move(submit)) {}

        const char *name;
        Submit submit;
        Result result{};
        int status = 0;
        std::coroutine_handle<> waiting{};

        bool await_ready() const noexcept { return false; }

        bool await_suspend(std::coroutine_handle<> handle)
        {
            waiting = handle;
            if (submit(&result, &ended, this) == 0)
                return true; // another thread may already have gone on: nothing of this object may be used
            status = errno;
            return false;
        }

        Result await_resume()
        {
            if (status != 0)
                fail(status, name);
            return std::move(result);
        }

        static int ended(void *data, int status) noexcept
        {
            auto *self = static_cast<awaiter *>(data);
            self->status = status;
            self->waiting.resume();
            return 0;
        }
    };

    struct promised : detail::promised<Result, std::promise<Result>> {
        static int ended(void *data, int status) noexcept
        {
            std::unique_ptr<promised> self(static_cast<promised *>(data));
            self->keep(status);
            return 0;
        }
    };

    const char *name_;
    Submit submit_;
};

/// Makes an operation of any function of pxfs.h: call<ssize_t>("pread", [=](ssize_t *n, pxfs_cb cb, void *data) {
/// return pxfs_pread(fd, buffer, bytes, offset, n, cb, data); }).
template <class Result, class Submit>
auto call(const char *name, Submit submit)
{
    return operation<Result, Submit>(name, std::move(submit));
}

/// A descriptor that is closed with this object.
class file {
public:
    file() = default;
    explicit file(int fd) noexcept : fd_(fd) {}
    file(file &&other) noexcept : fd_(other.release()) {}
    file(const file &) = delete;

    file &operator=(file &&other) noexcept
    {
        if (this != &other) {
            close();
            fd_ = other.release();
        }
        return *this;
    }

    ~file() { close(); }

    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }

private:
    // Nobody waits, and nobody hears of an error: who wants to, awaits atta::close(file.release()).
    void close() noexcept
    {
        if (fd_ >= 0 && pxfs_close(fd_, nullptr, nullptr) != 0)
            ::close(fd_);
        fd_ = -1;
    }

    int fd_ = -1;
};

/// The library, from here to the end of this object.
class library {
public:
    explicit library(atta_options options = {}, int drain_ms = -1) : drain_ms_(drain_ms)
    {
        options.size = sizeof options;
        if (atta_init(&options) != 0)
            fail(errno, "atta_init");
    }

    library(const library &) = delete;
    library &operator=(const library &) = delete;

    ~library() { atta_shutdown(ATTA_DRAIN, drain_ms_); }

private:
    int drain_ms_;
};

/// A coroutine that begins when it is called. get() blocks until it has ended, and gives what it returned or threw; do not
/// call it on a thread of the library. Dropped, it goes on.
template <class T = void>
class [[nodiscard]] task {
    template <class Value>
    struct returns {
        std::promise<Value> promise;
        template <class U>
        void return_value(U &&value)
        {
            promise.set_value(std::forward<U>(value));
        }
    };

    struct returns_nothing {
        std::promise<void> promise;
        void return_void() { promise.set_value(); }
    };

    using returned = std::conditional_t<std::is_void_v<T>, returns_nothing, returns<T>>;

public:
    struct promise_type : returned {
        task get_return_object() { return task(this->promise.get_future()); }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void unhandled_exception() { this->promise.set_exception(std::current_exception()); }
    };

    T get() { return future_.get(); }

private:
    explicit task(std::future<T> future) : future_(std::move(future)) {}

    std::future<T> future_;
};

inline auto open(std::string path, int flags, mode_t mode = 0)
{
    struct opened {
        std::string path;
        int flags;
        mode_t mode;
        int operator()(file *out, pxfs_cb cb, void *data) const
        {
            static_assert(sizeof(file) == sizeof(int) && std::is_standard_layout_v<file>);
            return pxfs_open(path.c_str(), flags, reinterpret_cast<int *>(out), cb, data, mode);
        }
    };
    return call<file>("open", opened{std::move(path), flags, mode});
}

inline auto close(int fd)
{
    return call<nothing>("close", [=](nothing *, pxfs_cb cb, void *data) { return pxfs_close(fd, cb, data); });
}

inline auto read(int fd, void *buffer, size_t bytes)
{
    return call<ssize_t>("read", [=](ssize_t *n, pxfs_cb cb, void *data) {
        return pxfs_read(fd, buffer, bytes, n, cb, data);
    });
}

inline auto pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    return call<ssize_t>("pread", [=](ssize_t *n, pxfs_cb cb, void *data) {
        return pxfs_pread(fd, buffer, bytes, offset, n, cb, data);
    });
}

inline auto write(int fd, const void *buffer, size_t bytes)
{
    return call<ssize_t>("write", [=](ssize_t *n, pxfs_cb cb, void *data) {
        return pxfs_write(fd, buffer, bytes, n, cb, data);
    });
}

inline auto pwrite(int fd, const void *buffer, size_t bytes, off_t offset)
{
    return call<ssize_t>("pwrite", [=](ssize_t *n, pxfs_cb cb, void *data) {
        return pxfs_pwrite(fd, buffer, bytes, offset, n, cb, data);
    });
}

inline auto fsync(int fd)
{
    return call<nothing>("fsync", [=](nothing *, pxfs_cb cb, void *data) { return pxfs_fsync(fd, cb, data); });
}

inline auto fdatasync(int fd)
{
    return call<nothing>("fdatasync",
                         [=](nothing *, pxfs_cb cb, void *data) { return pxfs_fdatasync(fd, cb, data); });
}

inline auto ftruncate(int fd, off_t bytes)
{
    return call<nothing>("ftruncate",
                         [=](nothing *, pxfs_cb cb, void *data) { return pxfs_ftruncate(fd, bytes, cb, data); });
}

inline auto stat(std::string path)
{
    return call<struct stat>("stat", [path = std::move(path)](struct stat *out, pxfs_cb cb, void *data) {
        return pxfs_stat(path.c_str(), out, cb, data);
    });
}

inline auto fstat(int fd)
{
    return call<struct stat>("fstat",
                             [=](struct stat *out, pxfs_cb cb, void *data) { return pxfs_fstat(fd, out, cb, data); });
}

inline auto unlink(std::string path)
{
    return call<nothing>("unlink", [path = std::move(path)](nothing *, pxfs_cb cb, void *data) {
        return pxfs_unlink(path.c_str(), cb, data);
    });
}

inline auto rmdir(std::string path)
{
    return call<nothing>("rmdir", [path = std::move(path)](nothing *, pxfs_cb cb, void *data) {
        return pxfs_rmdir(path.c_str(), cb, data);
    });
}

inline auto mkdir(std::string path, mode_t mode)
{
    return call<nothing>("mkdir", [path = std::move(path), mode](nothing *, pxfs_cb cb, void *data) {
        return pxfs_mkdir(path.c_str(), mode, cb, data);
    });
}

inline auto rename(std::string from, std::string to)
{
    return call<nothing>("rename",
                         [from = std::move(from), to = std::move(to)](nothing *, pxfs_cb cb, void *data) {
                             return pxfs_rename(from.c_str(), to.c_str(), cb, data);
                         });
}

} // namespace atta

#endif
