"""Interpreters other than Python."""

import json
import subprocess

from program import PNG, need, put, run, shell


def test_node(cay):
    need("node")
    out = run(cay, "node", "-e", """
        const fs = require('fs'), os = require('os'), zlib = require('zlib');
        fs.writeFileSync('a.txt', 'written');
        console.log(fs.readFileSync('a.txt', 'utf8'), os.homedir(), os.tmpdir(), os.userInfo().username);
        console.log(zlib.gunzipSync(zlib.gzipSync('packed')).toString());
        console.log(require('crypto').scryptSync('a', 'b', 4).length);
        console.log(require('child_process').execFileSync('echo', ['child']).toString().trim());
        """)
    assert out == "written /workspace /tmp cay\npacked\n4\nchild\n"


def test_node_worker_threads(cay):
    need("node")
    out = run(cay, "node", "-e", """
        const { Worker } = require('worker_threads');
        const code = 'const { parentPort, workerData: n } = require("worker_threads"); parentPort.postMessage(n * n)';
        const one = n => new Promise((done, fail) =>
            new Worker(code, { eval: true, workerData: n }).on('message', done).on('error', fail));
        Promise.all([1, 2, 3, 4].map(one)).then(all => console.log(all.join(' ')));
        """)
    assert out == "1 4 9 16\n"


def test_node_fetch_fails_fast_and_clearly(cay):
    need("node")
    done = cay.run("--", "node", "-e", """
        fetch('https://example.com/').catch(e => { console.log(e.message, e.cause.code); process.exit(3); })""")
    assert (done.rc, done.text) == (3, "fetch failed EAI_AGAIN\n") and done.seconds < 5


def test_npm_install(cay, place):
    """Of a package that was packed before, and of no other."""
    need("node", "npm")
    package = place / "left"
    package.mkdir()
    (package / "package.json").write_text(json.dumps(
        {"name": "left", "version": "1.2.3", "main": "left.js", "bin": {"left": "left.js"}}))
    (package / "left.js").write_text("#!/usr/bin/env node\nmodule.exports = s => '<' + s;\n"
                                     "if (require.main === module) console.log('left behind');\n")
    packed = run(cay, "npm", "pack", "--silent", "--pack-destination", "/tmp", "/workspace/left",
                 options=["--put", "left", "--get", "/tmp/*.tgz"])
    assert packed == "left-1.2.3.tgz\n"
    out = shell(cay, """
        npm init -y >/tmp/log
        npm install --offline --silent --no-audit --no-fund ./left-1.2.3.tgz
        node -p 'require("left")("it")'
        npx --offline left
        """, "--put", packed.strip())
    assert out == "<it\nleft behind\n"


def test_npm_without_a_network_fails_clearly(cay):
    need("npm")
    done = cay.run("--", "npm", "install", "--fetch-retries=0", "left-pad", timeout=60)
    assert done.rc != 0 and done.seconds < 20 and "EAI_AGAIN" in done.errors


def test_ruby(cay):
    need("ruby")
    out = run(cay, "ruby", "-e", """
        require 'json'; require 'set'; require 'etc'; require 'open3'; require 'digest'
        reader, writer = IO.pipe
        pid = fork { reader.close; writer.write JSON.dump({child: Process.pid != 2}); exit! 3 }
        writer.close; Process.wait pid
        puts reader.read, $?.exitstatus
        puts (1..4).map { |n| Thread.new { n * n } }.map(&:value).inspect
        puts Open3.capture2('tr a-z A-Z', stdin_data: 'shout')[0], Etc.nprocessors
        """)
    assert out == '{"child":true}\n3\n[1, 4, 9, 16]\nSHOUT\n1\n'


def test_ruby_gem(cay, place):
    need("ruby", "gem")
    options = put(place, tiny_gemspec="""
        Gem::Specification.new do |s|
          s.name, s.version, s.summary, s.authors = 'tiny', '1.0.0', 'tiny', ['nobody']
          s.files, s.licenses, s.homepage = ['lib/tiny.rb'], ['MIT'], 'https://example.com'
        end
        """)
    out = shell(cay, """
        mkdir lib
        echo 'module Tiny; def self.answer = 42; end' > lib/tiny.rb
        gem build -q tiny.gemspec >/tmp/log
        export GEM_HOME=$PWD/gems
        gem install --local --no-document tiny-1.0.0.gem | tail -1
        ruby -e 'require "tiny"; puts Tiny.answer, Gem.loaded_specs["tiny"].full_gem_path'
        """, *options)
    assert out == "1 gem installed\n42\n/workspace/gems/gems/tiny-1.0.0\n"


def test_php(cay):
    need("php")
    out = run(cay, "php", "-r", """
        echo json_encode(['a' => [1, 2.5, null]]), "\\n", ctype_digit("42") ? 'digits' : '', "\\n";
        echo preg_replace('/(\\w+) (\\w+)/u', '$2 $1', 'Welt hallo'), "\\n", hash('crc32b', 'x'), "\\n";
        $pid = pcntl_fork(); if ($pid == 0) exit(3);
        pcntl_waitpid($pid, $status); echo pcntl_wexitstatus($status), "\\n";
        echo iconv('UTF-8', 'ISO-8859-1', 'ä') === "\\xe4" ? 'latin' : '', "\\n";
        $zip = new PharData('/tmp/a.tar'); $zip['x'] = 'packed'; echo file_get_contents('phar:///tmp/a.tar/x'), "\\n";
        echo token_name(token_get_all('<?php 1;')[0][0]), "\\n";
        """)
    assert out == ('{"a":[1,2.5,null]}\ndigits\nhallo Welt\n8cdc1683\n3\nlatin\npacked\nT_OPEN_TAG\n')


def test_php_warns_on_stderr_as_debian_sets_it(cay):
    need("php")
    done = cay.run("--", "php", "-r", "echo 'out'; fopen('/none', 'r');").ok()
    assert done.text == "out" and done.errors.startswith("PHP Warning:  fopen(/none)")


def test_perl(cay):
    need("perl")
    out = run(cay, "perl", "-e", """
        use strict; use warnings; use List::Util 'sum'; use POSIX (); use File::Temp 'tempfile';
        my ($f, $name) = tempfile(); print $f "x\\n"; close $f; print -s $name, "\\n";
        my $pid = open(my $child, '-|') // die; if (!$pid) { print 'from a child'; exit }
        print <$child>, ' ', sum(1 .. 10), ' ', join('', reverse split //, 'abc'), "\\n";
        print POSIX::strftime('%Y', gmtime 0), ' ', scalar(getpwuid $>), "\\n";
        """)
    assert out == "2\nfrom a child 55 cba\n1970 cay\n"


def test_lua(cay):
    need("lua5.4")
    out = run(cay, "lua5.4", "-e", """
        local p = io.popen('echo child') print(p:read('l')) p:close()
        local f = assert(io.open(os.tmpname(), 'w+')) f:write(6 * 7) f:seek('set') print(f:read('n'))
        print(#table.pack(string.gsub('aXbX', 'X', '-')), os.getenv('HOME'), select(2, pcall(error, 'caught')))
        """)
    assert out == "child\n42\n2\t/workspace\tcaught\n"


def test_r(cay):
    need("Rscript")
    out = run(cay, "Rscript", "-e", """
        m <- lm(mpg ~ wt, mtcars); cat(round(coef(m), 2), "\\n")
        cat(unlist(parallel::mclapply(1:4, function(n) n^2, mc.cores = 2)), "\\n")
        write.csv(data.frame(a = 1:2), "a.csv", row.names = FALSE); cat(sum(read.csv("a.csv")$a), "\\n")
        cat(system("echo child", intern = TRUE), .libPaths()[1] != "", "\\n")
        """)
    assert out == "37.29 -5.34 \n1 4 9 16 \n3 \nchild TRUE \n"


def test_ggplot(cay, place):
    need("Rscript")
    if subprocess.run(["Rscript", "-e", "library(ggplot2)"], capture_output=True).returncode:
        need("ggplot2 (r-cran-ggplot2)")
    run(cay, "Rscript", "-e", """
        library(ggplot2)
        p <- ggplot(mtcars, aes(wt, mpg, colour = factor(cyl))) + geom_point() + ggtitle("Größe")
        ggsave("p.png", p, width = 3, height = 2, dpi = 100)
        ggsave("p.pdf", p, width = 3, height = 2)
        """, options=["--get", "p.*"])
    png = (place / "p.png").read_bytes()
    assert png.startswith(PNG) and int.from_bytes(png[16:20], "big") == 300
    assert (place / "p.pdf").read_bytes().startswith(b"%PDF-")


def test_zsh(cay):
    need("zsh")
    out = run(cay, "zsh", "-c", "a=(3 1 2); print ${(on)a}; print ${(U):-loud}; [[ -o interactive ]] || print batch")
    assert out == "1 2 3\nLOUD\nbatch\n"
