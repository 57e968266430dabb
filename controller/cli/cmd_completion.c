/* xgwctl completion: scripts for bash and zsh, made from the table of commands. */
#include "controller/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "controller/cli/cli_options.h"
#include "controller/cli/cli_print.h"

static void add_settings(struct buf *to)
{
    for (size_t i = 0; i < cli_settings_table.count; i++) {
        buf_printf(to, " --%s", cli_settings_table.keys[i].name);
    }
    buf_text(to, " --config --help");
}

/* Length of a command's first word: what completion goes by. */
static size_t first_word(const struct cli_command *c)
{
    return strcspn(c->name, " ");
}

/* Whether a row's first word is that of the row before it: one of a group. */
static bool goes_on(unsigned i)
{
    const struct cli_command *c = &cli_commands[i];

    return i > 0 && first_word(c) == first_word(c - 1) &&
           strncmp(c->name, c[-1].name, first_word(c)) == 0;
}

static void add_commands(struct buf *to)
{
    for (unsigned i = 0; i < cli_command_count; i++) {
        if (!goes_on(i)) {
            buf_printf(to, "%s%.*s", i ? " " : "", (int)first_word(&cli_commands[i]),
                       cli_commands[i].name);
        }
    }
}

/* One arm of the case over first words: the options and words of its row, or of all
 * rows of its group. */
static void add_arm(unsigned first, struct buf *to)
{
    unsigned end = first + 1;

    while (end < cli_command_count && goes_on(end)) {
        end++;
    }
    buf_printf(to, "    %.*s)\n        options='",
               (int)first_word(&cli_commands[first]), cli_commands[first].name);
    for (unsigned i = first; i < end; i++) {
        for (const struct cli_option *o = cli_commands[i].options; o && o->name; o++) {
            buf_printf(to, "--%s ", o->name);
        }
    }
    buf_text(to, "'\n        words='");
    for (unsigned i = first; i < end; i++) {
        const struct cli_command *c = &cli_commands[i];
        size_t len = first_word(c);

        if (c->name[len]) {
            buf_printf(to, "%s%s", i > first ? " " : "", c->name + len + 1);
        }
        for (unsigned w = 0; c->words && c->words[w]; w++) {
            buf_printf(to, "%s%s", w ? " " : "", c->words[w]);
        }
    }
    buf_text(to, "'\n        ;;\n");
}

static void print_bash(struct buf *to)
{
    buf_text(to, "# bash completion for xgwctl: source it, or put it into\n"
                 "# /etc/bash_completion.d/\n"
                 "_xgwctl()\n{\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} command= options= words= i\n"
                 "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                 "        case ${COMP_WORDS[i]} in\n"
                 "        -*) ;;\n"
                 "        *)\n"
                 "            case ' ");
    add_commands(to);
    buf_text(to, " ' in\n"
                 "            *\" ${COMP_WORDS[i]} \"*)\n"
                 "                command=${COMP_WORDS[i]}\n"
                 "                break\n"
                 "                ;;\n"
                 "            esac\n"
                 "            ;;\n"
                 "        esac\n"
                 "    done\n"
                 "    case ${COMP_WORDS[COMP_CWORD - 1]} in\n"
                 "    --output | -o)\n"
                 "        COMPREPLY=($(compgen -W 'table json yaml' -- \"$word\"))\n"
                 "        return\n"
                 "        ;;\n"
                 "    --wait)\n"
                 "        COMPREPLY=($(compgen -W 'none applied' -- \"$word\"))\n"
                 "        return\n"
                 "        ;;\n"
                 "    --file | -f | --ca | --token-file | --config)\n"
                 "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
                 "        return\n"
                 "        ;;\n"
                 "    esac\n"
                 "    case $command in\n");
    for (unsigned i = 0; i < cli_command_count; i++) {
        if (!goes_on(i)) {
            add_arm(i, to);
        }
    }
    buf_text(to, "    *)\n        words='");
    add_commands(to);
    buf_text(to, "'\n        ;;\n    esac\n"
                 "    if [[ $word == -* ]]; then\n"
                 "        COMPREPLY=($(compgen -W \"$options");
    add_settings(to);
    buf_text(to, "\" -- \"$word\"))\n"
                 "    elif [[ $command == import ]]; then\n"
                 "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
                 "    else\n"
                 "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                 "    fi\n"
                 "}\n"
                 "complete -F _xgwctl xgwctl\n");
}

/* zsh runs the bash function through its own emulation of it. */
static void print_zsh(struct buf *to)
{
    buf_text(to, "#compdef xgwctl\n"
                 "autoload -U +X bashcompinit && bashcompinit\n");
    print_bash(to);
}

enum cli_exit cmd_completion(struct cli *cli)
{
    struct buf text = BUF_INIT;

    if (strcmp(cli->args[0], "bash") == 0) {
        print_bash(&text);
    } else if (strcmp(cli->args[0], "zsh") == 0) {
        print_zsh(&text);
    } else {
        return cli_usage(cli, "'%s': not bash or zsh", cli->args[0]);
    }
    cli_print_buf(&text);
    return CLI_OK;
}
