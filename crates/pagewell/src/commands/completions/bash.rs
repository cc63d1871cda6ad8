//! What the generated script for bash lacks: names of files, and of what is inside an image.
//!
//! The generated function offers options and the placeholders of arguments. Here the words that
//! are places are completed first, and placeholders are taken out of what it offers. bash takes
//! `debian.iso::/boot` for three words, since a colon separates words (COMP_WORDBREAKS): the whole
//! is found in the line, and what is offered is the rest behind the last colon.

/// The functions, for a definition of the program: which commands take places, and which options
/// take a value, is told by it.
pub(super) fn places(program: &clap::Command) -> String {
    let is_place = |argument: &clap::Arg| {
        use clap::ValueHint::{AnyPath, DirPath};
        argument.is_positional() && matches!(argument.get_value_hint(), AnyPath | DirPath)
    };
    let takes_places = |command: &&clap::Command| command.get_positionals().any(is_place);
    let commands: Vec<&str> = program
        .get_subcommands()
        .filter(takes_places)
        .flat_map(clap::Command::get_name_and_visible_aliases)
        .collect();
    let mut options: Vec<String> = program
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .filter(|argument| !argument.is_positional() && argument.get_action().takes_values())
        // One whose value may be left out has it behind an equals sign.
        .filter(|argument| !argument.is_require_equals_set())
        .flat_map(|argument| {
            let long = argument.get_long().map(|name| format!("--{name}"));
            let short = argument.get_short().map(|name| format!("-{name}"));
            long.into_iter().chain(short)
        })
        .collect();
    options.sort();
    options.dedup();
    // A letter that is a flag of another command is no option with a value everywhere.
    options.retain(|option| option.starts_with("--"));
    FUNCTIONS
        .replace("@COMMANDS@", &commands.join("|"))
        .replace("@OPTIONS@", &options.join("|"))
}

const FUNCTIONS: &str = r#"
# The word that is being completed, as it was typed: bash cuts it at colons.
_pagewell_typed() {
    local line=${COMP_LINE:0:COMP_POINT} mark=$'\001'
    line=${line//\\ /$mark}
    line=${line##*[[:space:]]}
    line=${line//$mark/ }
    line=${line//\\/}
    printf '%s' "${line#[\'\"]}"
}

# Offers what begins so inside a source, as SOURCE::/PATH.
_pagewell_inside() {
    local typed=$1 source path directory name quoted cut
    source=${typed%%::/*}
    path=/${typed#*::/}
    directory=${path%/*}
    cut=''
    case $COMP_WORDBREAKS in *:*) cut=${path%"${path##*:}"} ;; *) cut=none ;; esac
    COMPREPLY=()
    # A server that does not answer would hold the shell.
    case $source in *://*) return ;; esac
    while IFS= read -r name; do
        [[ $directory/$name == "$path"* ]] || continue
        printf -v quoted %q "$directory/$name"
        if [[ $cut == none ]]; then
            quoted=$source::$quoted
        else
            quoted=${quoted#"$cut"}
        fi
        COMPREPLY+=("$quoted")
    done < <("${COMP_WORDS[0]/#\~/$HOME}" ls -1p -- "$source::$directory/" 2>/dev/null)
    compopt -o nospace 2>/dev/null
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} != */ ]]; then
        COMPREPLY[0]+=' '
    fi
}

_pagewell_words() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} typed offered word
    typed=$(_pagewell_typed)
    if [[ $COMP_CWORD -ge 2 && $typed != -* ]]; then
        case $before in
            @OPTIONS@) ;;
            *)
                case ${COMP_WORDS[1]} in
                    @COMMANDS@)
                        if [[ $typed == *:: ]]; then
                            compopt -o nospace 2>/dev/null
                            COMPREPLY=(/)
                        elif [[ $typed == *::/* ]]; then
                            _pagewell_inside "$typed"
                        else
                            case $current in :*) current=${current##*:} ;; esac
                            compopt -o filenames 2>/dev/null
                            mapfile -t COMPREPLY < <(compgen -f -- "$current")
                        fi
                        return
                        ;;
                esac
                ;;
        esac
    fi
    _pagewell "$@"
    offered=("${COMPREPLY[@]}")
    COMPREPLY=()
    for word in "${offered[@]}"; do
        case $word in
            '['* | '<'* | [[:upper:]]*) ;;
            *) COMPREPLY+=("$word") ;;
        esac
    done
}

complete -F _pagewell_words -o bashdefault -o default pagewell
"#;
