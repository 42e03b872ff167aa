// The C++20 interface: coroutines that await operations, futures, and objects that clean up.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "atta.hpp"
#include "atta_hpx.hpp" // nothing, where there is no HPX

#define CHECK(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);          \
            std::_Exit(1);                                                           \
        }                                                                            \
    } while (0)

static atta::task<long> write_and_read(std::string directory, int number)
{
    std::string path = directory + "/c-" + std::to_string(number), moved = path + "-moved";
    atta::file file = co_await atta::open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    std::vector<char> out(1000 + static_cast<size_t>(number), static_cast<char>('a' + number % 26)), in(out.size());
    ssize_t n = co_await atta::write(file.get(), out.data(), out.size());
    CHECK(n == static_cast<ssize_t>(out.size()));
    n = co_await atta::pread(file.get(), in.data(), in.size(), 0);
    CHECK(n == static_cast<ssize_t>(out.size()) && in == out);
    n = co_await atta::read(file.get(), in.data(), in.size());
    CHECK(n == 0);
    co_await atta::fsync(file.get());
    co_await atta::ftruncate(file.get(), 10);
    struct stat status = co_await atta::fstat(file.get());
    CHECK(status.st_size == 10);
    co_await atta::rename(path, moved);
    status = co_await atta::stat(moved);
    CHECK(status.st_size == 10);
    co_await atta::close(file.release());
    co_await atta::unlink(moved);
    co_return static_cast<long>(out.size());
}

static atta::task<int> error_of(std::string path)
{
    try {
        co_await atta::stat(path);
    } catch (const std::system_error &error) {
        co_return error.code().value();
    }
    co_return 0;
}

static atta::task<> fails()
{
    co_await atta::unlink("/is/not/there");
}

static void coroutines(const std::string &directory)
{
    std::vector<atta::task<long>> tasks;
    for (int i = 0; i < 50; i++)
        tasks.push_back(write_and_read(directory, i));
    for (int i = 0; i < 50; i++)
        CHECK(tasks[static_cast<size_t>(i)].get() == 1000 + i);
    CHECK(error_of("/is/not/there").get() == ENOENT);
    CHECK(error_of("").get() == ENOENT); // refused when it is submitted
    bool has_thrown = false;
    try {
        fails().get();
    } catch (const std::system_error &error) {
        has_thrown = error.code() == std::errc::no_such_file_or_directory;
    }
    CHECK(has_thrown);
}

static void futures(const std::string &directory)
{
    std::string path = directory + "/f";
    {
        atta::file file = atta::open(path, O_RDWR | O_CREAT, 0600).as_future().get();
        CHECK(file.get() >= 0);
        std::vector<std::future<ssize_t>> writes;
        for (int i = 0; i < 100; i++)
            writes.push_back(atta::pwrite(file.get(), "x", 1, i).as_future());
        for (auto &write : writes)
            CHECK(write.get() == 1);
    }
    CHECK(atta::stat(path).as_future().get().st_size == 100);
    atta::unlink(path).as_future().get();
    auto refused = atta::stat("").as_future();
    int error = 0;
    try {
        refused.get();
    } catch (const std::system_error &thrown) {
        error = thrown.code().value();
    }
    CHECK(error == ENOENT);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    atta::library library;
    coroutines(argv[1]);
    futures(argv[1]);
    bool has_thrown = false;
    try {
        atta::library second;
    } catch (const std::system_error &error) {
        has_thrown = error.code().value() == EALREADY;
    }
    CHECK(has_thrown);
    return 0;
}
