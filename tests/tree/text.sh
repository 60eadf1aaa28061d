#!/bin/sh
# Words and shapes that do not belong in the repository.   text.sh SOURCE_ROOT
set -u
cd "$1" || exit 2
if [ -d .git ] || [ -f .git ]; then list() { git ls-files --cached --others --exclude-standard; }; else list() { find . -type f | sed 's|^\./||'; }; fi
bad=0
complain() { # TEXT LINES
    [ -n "$2" ] || return 0
    echo "$1:"
    printf '%s\n' "$2" | head -20
    bad=1
}
files=$(list | grep -v -e '^LICENSE$' -e '^third_party/' -e '^tests/tree/text.sh$' | while read -r f; do [ -f "$f" ] && echo "$f"; done)
text=$(printf '%s\n' "$files" | xargs grep -Il .)
code=$(printf '%s\n' "$text" | grep -E '\.(c|h|def|upat|mjs|sh|build)$')
[ "$(printf '%s\n' "$code" | wc -l)" -gt 50 ] || { echo "too few files found"; bad=1; }

in_text() { printf '%s\n' "$text" | xargs grep -n "$@" /dev/null; }
in_code() { printf '%s\n' "$code" | xargs grep -n "$@" /dev/null; }
complain "paths of one machine" "$(in_text -E '/(home|root|work|tmp/build)[/-][A-Za-z]')"
complain "marks of unfinished work" "$(in_code -wE 'TODO|FIXME|XXX|HACK')"
complain "says that it is unfinished" "$(in_code -iE 'not (yet )?implemented|unimplemented')"
complain "tabs" "$(in_code -P '\t' | grep -v '\.sh:')"
complain "packages, fetched and not written here: they may not be in any commit, so amend it" "$(printf '%s\n' "$files" | grep -E '\.(whl|tgz|deb|zip|so)$')"
complain "spaces at the end of a line" "$(in_text -E '[ 	]+$' | grep -v '^tests/golden')"
complain "longer than a thousand lines" "$(printf '%s\n' "$code" | xargs wc -l | awk '$1 > 1000 && $2 != "total" { print $2, $1, "lines" }')"
complain "does not start with what it is for" "$(printf '%s\n' "$code" | grep '\.[ch]$' | while read -r f; do
    head -1 "$f" | grep -q '^/\* ' || echo "$f"
done)"
exit $bad
