"""The languages as the tests know them: what each is asked to do, and what is special about it.

docs/languages.md is made of this table and of what tools/languages-doc measured.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Language:
    name: str
    title: str
    file: str        # a source file's name
    echo: str        # prints its arguments, one a line, then its standard input in capitals
    leave: str       # exits with code 3
    broken: str = ""  # what its compiler refuses; "" where nothing is compiled
    comment: str = "#"
    special: str = ""

    @property
    def compiled(self):
        return bool(self.broken)


# Each program takes them seconds, of which nothing is cay's. Where it is about cay, c stands for the compilers.
SLOW = {"c++", "go", "java", "r", "rust"}

LANGUAGES = [
    Language(
        "python", "Python", "prog.py",
        echo="import sys\nfor a in sys.argv[1:]: print(a)\nprint(sys.stdin.read().upper(), end='')",
        leave="raise SystemExit(3)",
        special="Packages of the host's Python are there; further versions by settings."),
    Language(
        "javascript", "JavaScript", "prog.js",
        echo="import fs from 'node:fs'\nfor (const a of process.argv.slice(2)) console.log(a)\n"
             "process.stdout.write(fs.readFileSync(0, 'utf8').toUpperCase())",
        leave="process.exit(3)", comment="//",
        special="Node. `import`, `require` and top-level await work in snippets from Node 20.10 "
                "on; before, only `require`."),
    Language(
        "typescript", "TypeScript", "prog.ts",
        echo="import * as fs from 'fs'\nenum From { Args = 2 }\n"
             "for (const a of process.argv.slice(From.Args) as string[]) console.log(a)\n"
             "const text: string = fs.readFileSync(0, 'utf8')\n"
             "process.stdout.write(text.toUpperCase())",
        leave="const code: number = 3\nprocess.exit(code)",
        broken="const x: number = ;", comment="//",
        special="Bundled by esbuild with what it imports, so enums, decorators, namespaces and "
                "paths without extensions work on any Node; types are stripped, not checked. "
                "Without esbuild, Node from 22.7 on runs it by itself."),
    Language(
        "ruby", "Ruby", "prog.rb",
        echo="ARGV.each { |a| puts a }\nprint $stdin.read.upcase",
        leave="exit 3",
        special="`gem install --local` into the workspace works; there is no network."),
    Language(
        "php", "PHP", "prog.php",
        echo="<?php foreach (array_slice($argv, 1) as $a) echo $a, \"\\n\";\n"
             "echo strtoupper(stream_get_contents(STDIN));",
        leave="<?php exit(3);", comment="//",
        special="A snippet may begin with `<?php` or leave it out."),
    Language(
        "perl", "Perl", "prog.pl",
        echo="print \"$_\\n\" for @ARGV;\nprint uc join '', <STDIN>;",
        leave="exit 3;"),
    Language(
        "lua", "Lua", "prog.lua",
        echo="for _, a in ipairs(arg) do print(a) end\nio.write(io.read('a'):upper())",
        leave="os.exit(3)", comment="--"),
    Language(
        "r", "R", "prog.R",
        echo="for (a in commandArgs(trailingOnly = TRUE)) cat(a, '\\n', sep = '')\n"
             "for (l in readLines(file('stdin'))) cat(toupper(l), '\\n', sep = '')",
        leave="quit(status = 3)",
        special="Rscript; standard input is `file('stdin')`."),
    Language(
        "bash", "Bash", "prog.bash",
        echo="for a; do echo \"$a\"; done\ntr a-z A-Z",
        leave="exit 3"),
    Language(
        "sh", "POSIX shell", "prog.sh",
        echo="for a; do echo \"$a\"; done\ntr a-z A-Z",
        leave="exit 3",
        special="Whatever /bin/sh is: dash on Debian."),
    Language(
        "zsh", "Zsh", "prog.zsh",
        echo="for a; do print -r -- $a; done\ntr a-z A-Z",
        leave="exit 3"),
    Language(
        "go", "Go", "prog.go",
        echo="package main\nimport (\"fmt\"; \"io\"; \"os\"; \"strings\")\nfunc main() {\n"
             "for _, a := range os.Args[1:] { fmt.Println(a) }\n"
             "b, _ := io.ReadAll(os.Stdin)\nfmt.Print(strings.ToUpper(string(b))) }",
        leave="package main\nimport \"os\"\nfunc main() { os.Exit(3) }",
        broken="package main\nfunc main() { x := 1 }", comment="//",
        special="One file, built by `go build` with the standard library; a module is built by "
                "`cay run --workspace . -- go build`."),
    Language(
        "rust", "Rust", "prog.rs",
        echo="use std::io::Read;\nfn main() {\nfor a in std::env::args().skip(1) "
             "{ println!(\"{a}\"); }\nlet mut s = String::new();\n"
             "std::io::stdin().read_to_string(&mut s).unwrap();\nprint!(\"{}\", s.to_uppercase()); }",
        leave="fn main() { std::process::exit(3) }",
        broken="fn main() { let x: u32 = \"no\"; }", comment="//",
        special="`rustc --edition=2021 -O`, without crates."),
    Language(
        "c", "C", "prog.c",
        echo="#include <stdio.h>\n#include <ctype.h>\nint main(int n, char **v) {\n"
             "for (int i = 1; i < n; i++) puts(v[i]);\n"
             "for (int c; (c = getchar()) != EOF;) putchar(toupper(c));\nreturn 0; }",
        leave="int main(void) { return 3; }",
        broken="int main(void) { return x; }", comment="//",
        special="`gcc -O1 -pthread … -lm`."),
    Language(
        "c++", "C++", "prog.cpp",
        echo="#include <cctype>\n#include <iostream>\nint main(int n, char **v) {\n"
             "for (int i = 1; i < n; i++) std::cout << v[i] << '\\n';\n"
             "for (int c; (c = std::cin.get()) != EOF;) std::cout << char(std::toupper(c)); }",
        leave="int main() { return 3; }",
        broken="int main() { return x; }", comment="//",
        special="`g++ -O1 -pthread … -lm`."),
    Language(
        "java", "Java", "Prog.java",
        echo="public class Prog { public static void main(String[] v) throws Exception {\n"
             "for (String a : v) System.out.println(a);\n"
             "System.out.print(new String(System.in.readAllBytes()).toUpperCase()); } }",
        leave="class Prog { public static void main(String[] v) { System.exit(3); } }",
        broken="class Prog { int x = \"no\"; }", comment="//",
        special="javac, then java. The class that begins the program is the public one, or the "
                "first. The heap is measured by the island's memory limit (`-XX:MaxRAM`)."),
]
