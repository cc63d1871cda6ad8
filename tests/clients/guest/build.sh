# Part of guest-build: many small files, a compiler that maps them, make that compares times,
# git that renames, links and locks.
. /job/lib.sh

make_project() { # DIRECTORY
    local number
    mkdir "$1"
    cd "$1"
    for number in {1..8}; do
        printf 'int part_%d(void) { return %d; }\n' "$number" "$number" >"part_$number.c"
    done
    {
        printf '#include <stdio.h>\n'
        printf 'int part_%d(void);\n' {1..8}
        printf 'int main(void) {\n    int total = 0;\n'
        printf '    total += part_%d();\n' {1..8}
        printf '    printf("total %%d\\n", total);\n    return 0;\n}\n'
    } >main.c
    cat >Makefile <<'END'
CC = gcc
parts := $(patsubst %.c,%.o,$(wildcard part_*.c))
program: main.o libparts.a
	$(CC) -o $@ $^
libparts.a: $(parts)
	ar rcs $@ $^
END
}

for export in dir ram; do
    mount_export "/$export" "/mnt/$export"
    take_time "/mnt/$export"
    make_project "/mnt/$export/project"
    make -s -j2
    equal 'total 36' "$(./program)" "the program built in $export"
    step "$export: built"
    make -q || fail 'make finds something out of date that it has just built'
    cd /tmp
    umount "/mnt/$export"
done

mount_export /dir /mnt/dir
cd /mnt/dir/project
equal 'total 36' "$(./program)" 'the program after a new mount'
echo 'int part_7(void) { return 107; }' >part_7.c
make -s
equal 'total 136' "$(./program)" 'the program built again'
echo 'int part_7(void) { return 7; }' >part_7.c
make -s
equal 'total 36' "$(./program)" 'the program built once more'
step 'dir: built again after changes'
cat >.gitignore <<<'*.o'
git init -q -b main .
git config user.name Guest
git config user.email guest@example.org
git add .
git commit -q -m first
for number in 1 2; do
    echo "// $number" >>main.c
    git commit -q -a -m "change $number"
done
git checkout -q HEAD~2
git checkout -q main
git repack -a -d -q
forget
git fsck --strict --no-progress
equal 3 "$(git log --oneline | wc -l)" 'commits'
[ -z "$(git status --porcelain)" ] || fail "not clean: $(git status --porcelain)"
git clone -q /mnt/dir/project /mnt/dir/clone
diff -r --exclude .git --exclude '*.o' /mnt/dir/project /mnt/dir/clone
step 'git: committed, packed, cloned'
