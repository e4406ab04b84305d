//! Rewrites a parsed template so that Python's rules apply: operators, attributes, items, slices and loops become calls
//! of the functions of this folder.

use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    self, BinOpKind, CallArg, CallType, CompareOpKind, Expr, Spanned, Stmt, UnaryOpKind,
};
use minijinja::value::Tuple;
use minijinja::{Error, ErrorKind, Value};

use super::names;

/// Rewrites a template.
pub(super) fn rewritten<'a>(template: &Stmt<'a>) -> Result<Stmt<'a>, Error> {
    Rewriter::default().statement(template)
}

/// The special arguments of the macro that is being rewritten.
#[derive(Clone, Copy, Debug, Default)]
struct Rewriter {
    varargs: bool,
    kwargs: bool,
}

fn refused(why: &'static str) -> Error {
    Error::new(ErrorKind::SyntaxError, why)
}

fn var(id: &str, span: Span) -> Expr<'_> {
    Expr::Var(Spanned::new(ast::Var { id }, span))
}

fn constant<'a>(value: impl Into<Value>, span: Span) -> Expr<'a> {
    let value = value.into();
    Expr::Const(Spanned::new(ast::Const { value }, span))
}

fn call<'a>(name: &'static str, operands: Vec<Expr<'a>>, span: Span) -> Expr<'a> {
    let args = operands.into_iter().map(CallArg::Pos).collect();
    let expr = var(name, span);
    Expr::Call(Spanned::new(ast::Call { expr, args }, span))
}

/// Leaves the target of an assignment as it is.
fn target<'a>(expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
    Ok(match expr {
        Expr::Var(name) => var(name.id, name.span()),
        Expr::GetAttr(attr) => Expr::GetAttr(Spanned::new(
            ast::GetAttr {
                expr: target(&attr.expr)?,
                name: attr.name,
            },
            attr.span(),
        )),
        Expr::List(list) => {
            let items = list.items.iter().map(target).collect::<Result<_, _>>()?;
            Expr::List(Spanned::new(ast::List { items }, list.span()))
        }
        _ => return Err(refused("a value is assigned to what cannot be assigned to")),
    })
}

impl Rewriter {
    fn statements<'a>(&mut self, statements: &[Stmt<'a>]) -> Result<Vec<Stmt<'a>>, Error> {
        let mut rewritten = Vec::with_capacity(statements.len());
        for statement in statements {
            if let Stmt::Macro(one) = statement {
                self.any_macro(one, &mut rewritten)?;
            } else {
                rewritten.push(self.statement(statement)?);
            }
        }
        Ok(rewritten)
    }

    fn statement<'a>(&mut self, statement: &Stmt<'a>) -> Result<Stmt<'a>, Error> {
        Ok(match statement {
            Stmt::Template(one) => {
                let children = self.statements(&one.children)?;
                Stmt::Template(Spanned::new(ast::Template { children }, one.span()))
            }
            Stmt::EmitExpr(one) => {
                let expr = self.expr(&one.expr)?;
                Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr }, one.span()))
            }
            Stmt::EmitRaw(one) => {
                Stmt::EmitRaw(Spanned::new(ast::EmitRaw { raw: one.raw }, one.span()))
            }
            Stmt::ForLoop(one) => self.for_loop(one)?,
            Stmt::IfCond(one) => Stmt::IfCond(Spanned::new(
                ast::IfCond {
                    expr: self.condition(&one.expr)?,
                    true_body: self.statements(&one.true_body)?,
                    false_body: self.statements(&one.false_body)?,
                },
                one.span(),
            )),
            Stmt::WithBlock(one) => {
                let each = one.assignments.iter();
                let each = each.map(|(name, value)| Ok((target(name)?, self.expr(value)?)));
                let assignments = each.collect::<Result<_, Error>>()?;
                let body = self.statements(&one.body)?;
                Stmt::WithBlock(Spanned::new(
                    ast::WithBlock { assignments, body },
                    one.span(),
                ))
            }
            Stmt::Set(one) => Stmt::Set(Spanned::new(
                ast::Set {
                    target: target(&one.target)?,
                    expr: self.expr(&one.expr)?,
                },
                one.span(),
            )),
            Stmt::SetBlock(one) => Stmt::SetBlock(Spanned::new(
                ast::SetBlock {
                    target: target(&one.target)?,
                    filter: self.maybe(one.filter.as_ref())?,
                    body: self.statements(&one.body)?,
                },
                one.span(),
            )),
            Stmt::AutoEscape(one) => Stmt::AutoEscape(Spanned::new(
                ast::AutoEscape {
                    enabled: self.expr(&one.enabled)?,
                    body: self.statements(&one.body)?,
                },
                one.span(),
            )),
            Stmt::FilterBlock(one) => Stmt::FilterBlock(Spanned::new(
                ast::FilterBlock {
                    filter: self.expr(&one.filter)?,
                    body: self.statements(&one.body)?,
                },
                one.span(),
            )),
            Stmt::Block(one) => Stmt::Block(Spanned::new(
                ast::Block {
                    name: one.name,
                    required: one.required,
                    body: self.statements(&one.body)?,
                },
                one.span(),
            )),
            Stmt::Macro(one) => Stmt::Macro(self.one_macro(one)?),
            Stmt::CallBlock(one) => {
                let call = Spanned::new(self.call(&one.call)?, one.call.span());
                let macro_decl = self.one_macro(&one.macro_decl)?;
                Stmt::CallBlock(Spanned::new(
                    ast::CallBlock { call, macro_decl },
                    one.span(),
                ))
            }
            Stmt::Continue(one) => Stmt::Continue(Spanned::new(ast::Continue, one.span())),
            Stmt::Break(one) => Stmt::Break(Spanned::new(ast::Break, one.span())),
            Stmt::Do(_) => return Err(refused("it has a tag {% do %}, which transformers lacks")),
            Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {
                return Err(refused("it includes another template, and there is none"));
            }
        })
    }

    fn for_loop<'a>(&mut self, one: &Spanned<ast::ForLoop<'a>>) -> Result<Stmt<'a>, Error> {
        let span = one.iter.span();
        let iter = call(names::ITERATE, vec![self.expr(&one.iter)?], span);
        Ok(Stmt::ForLoop(Spanned::new(
            ast::ForLoop {
                target: target(&one.target)?,
                iter,
                filter_expr: self.maybe(one.filter_expr.as_ref())?,
                recursive: one.recursive,
                body: self.statements(&one.body)?,
                else_body: self.statements(&one.else_body)?,
            },
            one.span(),
        )))
    }

    /// Rewrites a macro. One that uses `varargs` or `kwargs` gets them as its last parameters, and is called through an
    /// object that fills them.
    fn any_macro<'a>(
        &mut self,
        one: &Spanned<ast::Macro<'a>>,
        rewritten: &mut Vec<Stmt<'a>>,
    ) -> Result<(), Error> {
        let outer = std::mem::take(self);
        let mut inner = self.one_macro(one)?;
        let inside = std::mem::replace(self, outer);
        let span = one.span();
        if inside.varargs || inside.kwargs {
            let copy = |exprs: &[Expr<'a>]| exprs.iter().map(target).collect::<Result<_, _>>();
            let mut args: Vec<Expr<'a>> = copy(&inner.args)?;
            let names: Vec<Value> = args
                .iter()
                .filter_map(|arg| match arg {
                    Expr::Var(arg) => Some(Value::from(arg.id)),
                    _ => None,
                })
                .collect();
            args.extend([var("varargs", span), var("kwargs", span)]);
            let none: [(Value, Value); 0] = [];
            let defaults = vec![
                constant(Tuple::default(), span),
                constant(Value::from_pairs(none), span),
            ];
            let mut again = Self::default();
            let mut body = again.defaults(one)?;
            body.extend(again.statements(&one.body)?);
            let name = one.name;
            inner = Spanned::new(
                ast::Macro {
                    name,
                    args,
                    defaults,
                    body,
                },
                span,
            );
            rewritten.push(Stmt::Macro(inner));
            let operands = vec![
                var(name, span),
                constant(names, span),
                constant(inside.varargs, span),
                constant(inside.kwargs, span),
            ];
            rewritten.push(Stmt::Set(Spanned::new(
                ast::Set {
                    target: var(name, span),
                    expr: call(names::MACRO, operands, span),
                },
                span,
            )));
        } else {
            rewritten.push(Stmt::Macro(inner));
        }
        Ok(())
    }

    /// Rewrites a macro so that its defaults are set in the order of its parameters: each may use those before it.
    fn one_macro<'a>(
        &mut self,
        one: &Spanned<ast::Macro<'a>>,
    ) -> Result<Spanned<ast::Macro<'a>>, Error> {
        let mut body = self.defaults(one)?;
        body.extend(self.statements(&one.body)?);
        Ok(Spanned::new(
            ast::Macro {
                name: one.name,
                args: one.args.iter().map(target).collect::<Result<_, _>>()?,
                defaults: Vec::new(),
                body,
            },
            one.span(),
        ))
    }

    /// Returns statements that set undefined parameters of a macro to their defaults.
    fn defaults<'a>(&mut self, one: &Spanned<ast::Macro<'a>>) -> Result<Vec<Stmt<'a>>, Error> {
        let span = one.span();
        let without = one.args.len().saturating_sub(one.defaults.len());
        let pairs = one.args.iter().skip(without).zip(&one.defaults);
        let each = pairs.map(|(parameter, default)| {
            let test = ast::Test {
                name: "undefined",
                expr: target(parameter)?,
                args: Vec::new(),
            };
            let set = ast::Set {
                target: target(parameter)?,
                expr: self.expr(default)?,
            };
            Ok(Stmt::IfCond(Spanned::new(
                ast::IfCond {
                    expr: Expr::Test(Spanned::new(test, span)),
                    true_body: vec![Stmt::Set(Spanned::new(set, span))],
                    false_body: Vec::new(),
                },
                span,
            )))
        });
        each.collect()
    }

    fn maybe<'a>(&mut self, expr: Option<&Expr<'a>>) -> Result<Option<Expr<'a>>, Error> {
        expr.map(|expr| self.expr(expr)).transpose()
    }

    fn exprs<'a>(&mut self, exprs: &[Expr<'a>]) -> Result<Vec<Expr<'a>>, Error> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn arguments<'a>(&mut self, args: &[CallArg<'a>]) -> Result<Vec<CallArg<'a>>, Error> {
        let each = args.iter().map(|arg| {
            Ok(match arg {
                CallArg::Pos(value) => CallArg::Pos(self.expr(value)?),
                CallArg::Kwarg(name, value) => CallArg::Kwarg(name, self.expr(value)?),
                CallArg::PosSplat(value) => {
                    let span = value.span();
                    CallArg::PosSplat(call(names::ITERATE, vec![self.expr(value)?], span))
                }
                CallArg::KwargSplat(value) => CallArg::KwargSplat(self.expr(value)?),
            })
        });
        each.collect()
    }

    fn call<'a>(&mut self, one: &Spanned<ast::Call<'a>>) -> Result<ast::Call<'a>, Error> {
        let mut args = self.arguments(&one.args)?;
        let expr = match one.identify_call() {
            CallType::Function(name) => {
                if name == "loop" {
                    args = args
                        .into_iter()
                        .map(|arg| match arg {
                            CallArg::Pos(value) => {
                                let span = value.span();
                                CallArg::Pos(call(names::ITERATE, vec![value], span))
                            }
                            other => other,
                        })
                        .collect();
                }
                self.note(name);
                var(name, one.span())
            }
            // `self.block()` renders a block again.
            CallType::Block(name) => Expr::GetAttr(Spanned::new(
                ast::GetAttr {
                    expr: var("self", one.span()),
                    name,
                },
                one.span(),
            )),
            CallType::Method(..) | CallType::Object(_) => self.expr(&one.expr)?,
        };
        Ok(ast::Call { expr, args })
    }

    /// Rewrites a condition. An empty namespace is true in Python, and false in minijinja.
    fn condition<'a>(&mut self, expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
        let condition = self.expr(expr)?;
        Ok(match expr {
            Expr::Var(one) => call(names::TRUTH, vec![condition], one.span()),
            _ => condition,
        })
    }

    fn note(&mut self, name: &str) {
        self.varargs |= name == "varargs";
        self.kwargs |= name == "kwargs";
    }

    fn expr<'a>(&mut self, expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
        let span = expr.span();
        Ok(match expr {
            Expr::Var(one) => {
                self.note(one.id);
                var(one.id, span)
            }
            Expr::Const(one) => constant(one.value.clone(), span),
            Expr::Slice(one) => {
                let bound = |bound: Option<Expr<'a>>| bound.unwrap_or_else(|| constant((), span));
                let operands = vec![
                    self.expr(&one.expr)?,
                    bound(self.maybe(one.start.as_ref())?),
                    bound(self.maybe(one.stop.as_ref())?),
                    bound(self.maybe(one.step.as_ref())?),
                ];
                call(names::SLICE, operands, span)
            }
            Expr::UnaryOp(one) => match one.op {
                UnaryOpKind::Neg => call(names::NEG, vec![self.expr(&one.expr)?], span),
                UnaryOpKind::Not => Expr::UnaryOp(Spanned::new(
                    ast::UnaryOp {
                        op: UnaryOpKind::Not,
                        expr: self.condition(&one.expr)?,
                    },
                    span,
                )),
            },
            Expr::BinOp(one) => self.binary(one)?,
            Expr::Compare(one) => {
                let mut operands = vec![self.expr(&one.expr)?];
                for op in &one.ops {
                    operands.push(constant(spelling(op.op), span));
                    operands.push(self.expr(&op.expr)?);
                }
                call(names::COMPARE, operands, span)
            }
            Expr::IfExpr(one) => Expr::IfExpr(Spanned::new(
                ast::IfExpr {
                    test_expr: self.condition(&one.test_expr)?,
                    true_expr: self.expr(&one.true_expr)?,
                    false_expr: self.maybe(one.false_expr.as_ref())?,
                },
                span,
            )),
            Expr::Filter(one) => Expr::Filter(Spanned::new(
                ast::Filter {
                    name: one.name,
                    expr: self.maybe(one.expr.as_ref())?,
                    args: self.arguments(&one.args)?,
                },
                span,
            )),
            Expr::Test(one) => Expr::Test(Spanned::new(
                ast::Test {
                    name: one.name,
                    expr: self.expr(&one.expr)?,
                    args: self.arguments(&one.args)?,
                },
                span,
            )),
            Expr::GetAttr(one) => {
                let operands = vec![self.expr(&one.expr)?, constant(one.name, span)];
                call(names::ATTR, operands, span)
            }
            Expr::GetItem(one) => {
                let operands = vec![self.expr(&one.expr)?, self.expr(&one.subscript_expr)?];
                call(names::ITEM, operands, span)
            }
            Expr::Call(one) => Expr::Call(Spanned::new(self.call(one)?, span)),
            Expr::List(one) => {
                let items = self.exprs(&one.items)?;
                Expr::List(Spanned::new(ast::List { items }, span))
            }
            Expr::Tuple(one) => {
                let items = self.exprs(&one.items)?;
                Expr::Tuple(Spanned::new(ast::Tuple { items }, span))
            }
            Expr::Map(one) => {
                let (keys, values) = (self.exprs(&one.keys)?, self.exprs(&one.values)?);
                Expr::Map(Spanned::new(ast::Map { keys, values }, span))
            }
        })
    }

    fn binary<'a>(&mut self, one: &Spanned<ast::BinOp<'a>>) -> Result<Expr<'a>, Error> {
        let span = one.span();
        let (left, right) = (self.expr(&one.left)?, self.expr(&one.right)?);
        let compared = |left, operator: &'static str, right| {
            let operands = vec![left, constant(operator, span), right];
            Ok(call(names::COMPARE, operands, span))
        };
        let name = match one.op {
            BinOpKind::Eq => return compared(left, "==", right),
            BinOpKind::Ne => return compared(left, "!=", right),
            BinOpKind::Lt => return compared(left, "<", right),
            BinOpKind::Lte => return compared(left, "<=", right),
            BinOpKind::Gt => return compared(left, ">", right),
            BinOpKind::Gte => return compared(left, ">=", right),
            BinOpKind::In => return compared(left, "in", right),
            op @ (BinOpKind::ScAnd | BinOpKind::ScOr) => {
                return Ok(Expr::BinOp(Spanned::new(
                    ast::BinOp { op, left, right },
                    span,
                )));
            }
            BinOpKind::Add => names::ADD,
            BinOpKind::Sub => names::SUB,
            BinOpKind::Mul => names::MUL,
            BinOpKind::Div => names::DIV,
            BinOpKind::FloorDiv => names::INT_DIV,
            BinOpKind::Rem => names::REM,
            BinOpKind::Pow => names::POW,
            BinOpKind::Concat => names::CONCAT,
        };
        Ok(call(name, vec![left, right], span))
    }
}

fn spelling(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => "==",
        CompareOpKind::Ne => "!=",
        CompareOpKind::Lt => "<",
        CompareOpKind::Lte => "<=",
        CompareOpKind::Gt => ">",
        CompareOpKind::Gte => ">=",
        CompareOpKind::In => "in",
        CompareOpKind::NotIn => "not in",
    }
}
