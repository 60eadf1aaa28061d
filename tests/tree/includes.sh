#!/bin/sh
# A folder includes only itself and those before it in this list; apps, models and examples only public headers.
#   includes.sh SOURCE_ROOT
set -u
cd "$1" || exit 2
find src include apps models examples tools -name '*.[ch]' -o -name '*.def' -o -name '*.upat' | sort | awk '
BEGIN { n = split("base ir rewrite autodiff schedule codegen backend search runtime tensor nn io", order, " ")
        for (i = 1; i <= n; i++) rank[order[i]] = i; bad = 0; seen = 0 }
{ file = $0
  while ((getline line < file) > 0) {
      if (line !~ /^[ \t]*#?[ \t]*include[ \t]+["<]/) continue
      name = line; sub(/^[^"<]*["<]/, "", name); sub(/[">].*/, "", name)
      seen++
      split(file, f, "/"); split(name, p, "/")
      if (f[1] == "src" && p[1] in rank) {
          if (!(f[2] in rank)) { print file ": the folder src/" f[2] " has no place in the order"; bad = 1 }
          else if (rank[p[1]] > rank[f[2]]) { print file ": includes " name ", from a folder below it"; bad = 1 }
      }
      if (f[1] == "src" && !(f[2] in rank)) { print file ": the folder has no place in the order"; bad = 1 }
      if (f[1] == "include" && p[1] != "anneal" && line ~ /"/) { print file ": a public header includes " name; bad = 1 }
      if (f[1] ~ /^(apps|models|examples)$/ && (p[1] in rank) && name ~ /\//) { print file ": uses " name ", not a public header"; bad = 1 }
  }
  close(file) }
END { if (seen < 50) { print "only " seen " include lines found"; bad = 1 }
      print seen " include lines"; exit bad }'
