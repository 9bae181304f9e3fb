"""Compilers, what builds with them, and what they built."""

from program import need, put, run, shell


def test_gcc(cay, place):
    need("gcc")
    options = put(place, main_c="""
        #include <math.h>
        #include <pthread.h>
        #include <stdio.h>
        static void *work(void *p) { *(double *)p = sqrt(1764); return NULL; }
        int main(void)
        {
            double d; pthread_t t;
            pthread_create(&t, NULL, work, &d); pthread_join(t, NULL);
            printf("%.0f\\n", d);
            return 0;
        }
        """)
    assert shell(cay, "gcc -O2 -Wall -pthread main.c -lm -o main; ./main", *options) == "42\n"


def test_gcc_openmp_counts_the_cpus(cay, place):
    need("gcc")
    options = put(place, main_c="""
        #include <omp.h>
        #include <stdio.h>
        int main(void) { int n = 0;
        #pragma omp parallel reduction(+:n)
            n += 1;
            return printf("%d %d\\n", n, omp_get_num_procs()) < 0; }
        """)
    build = "gcc -fopenmp main.c -o main; ./main"
    assert shell(cay, build, *options) == "1 1\n"
    assert shell(cay, build, *options, "--cpus", "2") == "2 2\n"


def test_sanitized_program(cay, place):
    """AddressSanitizer reserves terabytes of addresses, and finds the bug."""
    need("gcc")
    options = put(place, main_c="""
        #include <stdlib.h>
        int main(int n, char **v) { char *p = malloc(8); p[n + 7] = 1; free(p); return !v; }
        """)
    done = cay.run(*options, "--", "sh", "-c", "gcc -g -fsanitize=address main.c -o main && ./main")
    assert done.rc == 1 and "heap-buffer-overflow" in done.errors and "main.c:3" in done.errors


def test_gdb(cay, place):
    """A debugger may trace what it started itself."""
    need("gcc", "gdb")
    options = put(place, main_c="int twice(int n) { return 2 * n; }\nint main(void) { return twice(21); }\n")
    out = shell(cay, """
        gcc -g main.c -o main
        gdb -q -batch -ex 'break twice' -ex run -ex 'print n' -ex continue ./main 2>/dev/null | tail -2
        """, *options)
    assert out.splitlines()[0] == "$1 = 21" and "exited with code 052" in out


def test_g_plus_plus(cay, place):
    need("g++")
    options = put(place, main_cc="""
        #include <algorithm>
        #include <filesystem>
        #include <future>
        #include <iostream>
        #include <thread>
        #include <vector>
        int main()
        {
            std::vector<int> v{3, 1, 2};
            std::ranges::sort(v);
            auto sum = std::async(std::launch::async, [&] { int s = 0; for (int n : v) s = s * 10 + n; return s; });
            try { throw std::runtime_error("caught"); } catch (std::exception &e) { std::cout << e.what() << " "; }
            std::cout << sum.get() << " " << std::filesystem::current_path().string() << " "
                      << std::thread::hardware_concurrency() << "\\n";
        }
        """)
    assert shell(cay, "g++ -std=c++20 -O1 main.cc -o main; ./main", *options) == "caught 123 /workspace 1\n"


CMAKE = {
    "CMakeLists_txt": """
        cmake_minimum_required(VERSION 3.20)
        project(answer LANGUAGES C CXX)
        find_package(Threads REQUIRED)
        add_library(six STATIC six.c)
        add_executable(answer main.cc)
        target_link_libraries(answer six Threads::Threads)
        enable_testing()
        add_test(NAME says COMMAND answer)
        set_tests_properties(says PROPERTIES PASS_REGULAR_EXPRESSION "42")
        """,
    "six_c": "int six(void) { return 6; }\n",
    "main_cc": '#include <iostream>\nextern "C" int six(void);\nint main() { std::cout << 7 * six() << "\\n"; }\n',
}


def cmake(cay, place, generator):
    return shell(cay, f"""
        cmake -G '{generator}' -S . -B build >/tmp/log
        cmake --build build --parallel 2 >/tmp/log
        (cd build; ctest) | grep 'tests passed'
        build/answer
        """, *put(place, **CMAKE))


def test_cmake_and_make(cay, place):
    need("cmake", "make", "g++")
    assert cmake(cay, place, "Unix Makefiles") == "100% tests passed, 0 tests failed out of 1\n42\n"


def test_cmake_and_ninja(cay, place):
    need("cmake", "ninja", "g++")
    assert cmake(cay, place, "Ninja") == "100% tests passed, 0 tests failed out of 1\n42\n"


GO = {
    "go_mod": "module answer\n\ngo 1.19\n",
    "main_go": """
        package main

        import (
            "fmt"
            "os/exec"
            "runtime"
            "sync"
        )

        func Add(a, b int) int { return a + b }

        func main() {
            var wait sync.WaitGroup
            sums := make([]int, 1000)
            for i := range sums {
                wait.Add(1)
                go func(i int) { defer wait.Done(); sums[i] = Add(i, 1) }(i)
            }
            wait.Wait()
            total := 0
            for _, n := range sums { total += n }
            child, err := exec.Command("echo", "child").Output()
            fmt.Println(total, runtime.NumCPU(), string(child[:5]), err)
        }
        """,
    "main__test_go": """
        package main

        import "testing"

        func TestAdd(t *testing.T) {
            if Add(2, 3) != 5 { t.Fatal("wrong") }
        }
        """,
}


def go_files(place):
    options = put(place, **{k: v for k, v in GO.items() if k != "main__test_go"})
    (place / "main_test.go").write_text(GO["main__test_go"])
    return [*options, "--put", "main_test.go"]


def test_go(cay, place):
    need("go")
    out = shell(cay, "go build -o answer .; ./answer; go vet .; go test -v . | grep -c '^--- PASS'", *go_files(place))
    assert out == "500500 1 child <nil>\n1\n"


def test_go_in_a_read_only_workspace(cay, place):
    """Its cache is at home, which then is not the workspace."""
    need("go")
    go_files(place)
    assert shell(cay, "go run .", "--workspace", place) == "500500 1 child <nil>\n"


def test_rustc(cay, place):
    need("rustc")
    options = put(place, main_rs="""
        use std::{process::Command, thread};
        fn main() {
            let squares: Vec<u32> = (1..5).map(|n| thread::spawn(move || n * n)).map(|t| t.join().unwrap()).collect();
            let child = Command::new("echo").arg("child").output().unwrap();
            println!("{:?} {} {}", squares, thread::available_parallelism().unwrap(),
                     String::from_utf8_lossy(&child.stdout).trim());
        }
        """)
    assert shell(cay, "rustc -O main.rs; ./main", *options) == "[1, 4, 9, 16] 1 child\n"


def test_cargo(cay):
    need("cargo")
    out = shell(cay, """
        cargo new --quiet --name answer a
        cd a
        echo 'fn main() { println!("{}", 6 * 7); }  #[test] fn adds() { assert_eq!(1 + 1, 2); }' > src/main.rs
        cargo build --offline --quiet
        target/debug/answer
        cargo test --offline --quiet | grep 'test result'
        """)
    assert out.startswith("42\ntest result: ok. 1 passed;")


JAVA = {"Main_java": """
    import java.nio.file.*;
    import java.util.*;
    import java.util.concurrent.*;
    import java.util.stream.*;

    public class Main {
        record Point(int x, int y) {}

        public static void main(String[] args) throws Exception {
            var pool = Executors.newFixedThreadPool(4);
            var sums = IntStream.range(0, 8).mapToObj(n -> pool.submit(() -> n * n)).toList();
            int total = 0;
            for (var s : sums) total += s.get();
            pool.shutdown();
            Files.writeString(Path.of("a.txt"), new Point(1, 2).toString());
            var digest = java.security.MessageDigest.getInstance("SHA-256").digest("x".getBytes());
            var child = new ProcessBuilder("echo", "child").start();
            System.out.println(total + " " + Files.readString(Path.of("a.txt")) + " "
                + HexFormat.of().formatHex(digest).substring(0, 8) + " "
                + new String(child.getInputStream().readAllBytes()).trim());
            long garbage = 0;
            for (int i = 0; i < 10_000_000; i++) garbage += new byte[100].length;
            System.out.println(garbage + " " + Runtime.getRuntime().availableProcessors() + " "
                + java.lang.management.ManagementFactory.getGarbageCollectorMXBeans().get(0).getName());
            System.out.println(Files.getFileStore(Path.of("/tmp")).getTotalSpace() >> 20);
        }
    }
    """}


def test_java(cay, place):
    """With the collector that it chooses: by the CPUs in sight."""
    need("java", "javac")
    done = "140 Point[x=1, y=2] 2d711642 child\n1000000000 {}\n100\n"
    build = "javac Main.java; java Main"
    assert shell(cay, build, *put(place, **JAVA)) == done.format("1 Copy")
    assert shell(cay, build, "--cpus", "2", *put(place, **JAVA)) == done.format("2 G1 Young Generation")


def test_java_source_file(cay, place):
    need("java")
    assert run(cay, "java", "Main.java", options=put(place, **JAVA)).startswith("140 Point")


def test_esbuild(cay, place):
    need("esbuild", "node")
    options = put(place, a_ts="import { twice } from './b'; const n: number = 21; console.log(twice(n));\n",
                  b_ts="export const twice = (n: number): number => 2 * n;\n")
    assert shell(cay, "esbuild --bundle --log-level=error a.ts | node", *options) == "42\n"
