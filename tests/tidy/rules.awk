# SPDX-License-Identifier: Apache-2.0
# rules.awk -v folders="LOWEST ..." -- the source rules that one line shows, for C files named by paths from the
# root. Prints a sentence for each violation. Comments are taken out before a line is judged.

BEGIN {
    count = split(folders, order, " ")
    for (i = 1; i <= count; i++)
        rank[order[i]] = i
    split("assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp " \
          "signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn " \
          "string tgmath threads time uchar wchar", names, " ")
    for (i in names)
        standard["<" names[i] ".h>"] = 1
}

function report(text) { print FILENAME ":" FNR ": " text }

# Sets code to the line without comments, and bare to that without what is in quotes, too.
function strip(line,    end, mark) {
    code = bare = ""
    while (line != "") {
        if (in_comment) {
            end = index(line, "*/")
            if (!end)
                return
            line = substr(line, end + 2)
            in_comment = 0
        } else if (match(line, /"|'|\/\*|\/\//)) {
            code = code substr(line, 1, RSTART - 1)
            bare = bare substr(line, 1, RSTART - 1)
            mark = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART)
            if (mark == "//")
                return
            if (mark == "/*") {
                line = substr(line, 3)
                in_comment = 1
                continue
            }
            if (!match(line, mark == "\"" ? "^\"([^\"\\\\]|\\\\.)*\"" : "^'([^'\\\\]|\\\\.)*'"))
                RLENGTH = length(line)
            code = code substr(line, 1, RLENGTH)
            bare = bare mark mark
            line = substr(line, RLENGTH + 1)
        } else {
            code = code line
            bare = bare line
            return
        }
    }
}

# Whether the line names one of these functions, called or not: a pointer to one calls it elsewhere. Members of
# structs are named as such, but where the driver's are declared.
function says(names) { return match(bare, "(^|[^A-Za-z0-9_.>])(" names ")" (layer == "abi" ? "[ \t]*\\(" : "([^A-Za-z0-9_]|$)")) }

# Whether the line pastes a name of which it does not say whose it is, by tn_, TN_, tarn_ or TARN_.
function pastes(    rest) {
    rest = bare
    gsub(/(^|[^A-Za-z0-9_])(tn|TN|tarn|TARN)_[A-Za-z0-9_]*[ \t]*(##[ \t]*[A-Za-z0-9_]+[ \t]*)+/, "", rest)
    return index(rest, "##") > 0
}

# Judges one #include, its quotes or brackets kept.
function include(given,    folder) {
    folder = given
    sub(/^["<]/, "", folder)
    folder = folder ~ /\// ? substr(folder, 1, index(folder, "/") - 1) : ""
    if (given !~ /^["<]/) {
        report("includes " given ", which is a macro; write the name of the file")
        return
    }
    if (given ~ /\.\.\//) {
        report("includes " given "; write it from where includes begin, without ..")
        return
    }
    if (given ~ /^</ && (folder in rank || folder == "sim") && layer != "") {
        report("includes " given "; our own headers are in quotes")
        return
    }
    if (FILENAME ~ /^include\//) {
        if (folder != "tarn" && !(given in standard) || given ~ /^<tarn\//)
            report("a public header includes " given \
                   "; it may include \"tarn/...\" and standard headers")
    } else if (given ~ /^</) {
        if (FILENAME ~ /^tests\/api\// && (folder in rank || folder == "sim"))
            report("tests/api includes " given "; it may include \"tarn/...\" and \"support/...\"")
    } else if (layer == "sim") {
        if (folder != "sim" && folder != "abi" && folder != "base" && given != "\"tarn/sim.h\"")
            report("sim includes " given "; it may include sim, abi, base and tarn/sim.h")
    } else if (layer in rank) {
        if (folder == "tarn")
            return
        if (!(folder in rank))
            report("includes " given "; write it from src/, as \"" layer "/...\"")
        else if (rank[folder] > rank[layer])
            report("includes " given ", but " folder " is a layer above " layer)
    } else if (in_command && folder in rank && folder !~ /^(base|heap|observe)$/) {
        report("the command includes " given "; of src it may include base, heap and observe")
    } else if (FILENAME ~ /^tests\/api\// && folder != "tarn" && folder != "support") {
        report("tests/api includes " given "; it may include \"tarn/...\" and \"support/...\"")
    }
}

FNR == 1 {
    in_comment = 0
    layer = ""
    if (FILENAME ~ /^src\/[^\/]+\//) {
        layer = substr(FILENAME, 5)
        sub(/\/.*/, "", layer)
    }
    if (FILENAME ~ /^src\// && layer != "sim" && !(layer in rank))
        report(layer == "" ? "lies in no folder of src" \
                           : "src/" layer " has no rank; say in src/CMakeLists.txt where it stands")
    in_command = FILENAME ~ /^command\//
    may_name_driver = FILENAME ~ /^(src\/(abi|driver|nodes|sim)|samples\/common|tools\/(record|traces)|bench)\// ||
                      FILENAME ~ /^tests\/(abi|contract|fuzz|sim|stress|support|gpu|pairs)\//
}

{
    strip($0)
    if (code ~ /^[ \t]*#[ \t]*include/) {
        given = code
        sub(/^[ \t]*#[ \t]*include(_next)?[ \t]*/, "", given)
        sub(/[ \t]+$/, "", given)
        include(given)
        next
    }

    # Tests name functions in strings, for plans of faults.
    named = FILENAME ~ /^tests\// ? bare : code
    if (!may_name_driver && match(named, /(^|[^A-Za-z0-9_])cu[A-Z][A-Za-z]+/)) {
        name = substr(named, RSTART, RLENGTH)
        sub(/^[^A-Za-z0-9_]/, "", name)
        report("names the driver's " name "; only driver, nodes and the simulator may")
    }
    if (!may_name_driver && layer == "" && match(bare, /(^|[^A-Za-z0-9_])cu[ \t]*##/))
        report("pastes a driver's name; only the driver layer and the simulator may name one")
    if ((layer != "" || in_command || FILENAME ~ /^tools\/record\//) && FILENAME != "src/base/environment.h" &&
        match(bare, /(^|[^A-Za-z0-9_])(_*(secure_)?getenv|_*environ)([^A-Za-z0-9_]|$)/))
        report("reads the environment; use base/environment.h")
    if (layer == "" && !in_command)
        next
    if (layer != "sim" && pastes())
        report("pastes a name; begin it with tn_, so that these rules see whose it is")
    # What elfutils and the C++ library give is theirs to be freed as they say.
    if (layer != "sim" && FILENAME != "src/base/host.c" && FILENAME != "command/symbols.c" &&
        says("malloc|calloc|realloc|reallocarray|aligned_alloc|memalign|valloc|posix_memalign|free|strdup|strndup"))
        report("names the host's allocator; use base/host.h")
    if (says("sprintf|vsprintf|strcpy|strcat|gets|assert"))
        report("names a function that src does without; use snprintf, memcpy or TN_ASSERT")
}
